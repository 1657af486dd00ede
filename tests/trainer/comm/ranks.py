"""Real ranks on loopback for tests: processes of a fork server that has imported torch once, and a store."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from ringtrain.comm.forming import form_group
from ringtrain.comm.group import Group
from ringtrain.contract.mesh import Mesh

_SECONDS = 120.0


class Left(Exception):
    """The test told this rank to leave its collectives."""


class Link:
    """A rank's end of its pipe to the test."""

    def __init__(self, connection: Connection, port: int) -> None:
        self._connection = connection
        self.port = port
        self._run = 0
        self._formed = 0

    def say(self, value: Any) -> None:
        self._connection.send(value)

    def hear(self) -> Any:
        return self._connection.recv()

    def next_run(self) -> tuple["Body", tuple[Any, ...]]:
        """(body, its arguments), of Crew.run."""
        body, arguments = self.hear()
        self._run, self._formed = self._run + 1, 0
        return body, arguments

    def poll(self) -> None:
        if self._connection.poll():
            raise Left(self.hear())

    def form(
        self,
        rank: int,
        size: int,
        generation: str = "",
        seconds: float = _SECONDS,
        processes: int = 1,
        mesh: Mesh | None = None,
    ) -> Group:
        """Of the next generation, unless it is named."""
        generation = generation or f"{self._run}.{self._formed}"
        self._formed += 1
        address = f"127.9.0.{rank + 1}"
        timeout = timedelta(seconds=seconds)
        return form_group(
            rank, size, "127.0.0.1", self.port, generation, "cpu", address, timeout, self.poll, processes, mesh
        )


_PRELOADED = [
    "ringtrain.comm.reducer",
    "ringtrain.comm.codec.zfp_numba",
    "ringtrain.models",
    "ringtrain.data",
]

Body = Callable[..., Any]
"""Runs in the rank: body(link, rank, *arguments); its result is sent to the test."""


def _main(connection: Connection, port: int, body: Body, rank: int, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    link = Link(connection, port)
    link.say(body(link, rank, *arguments))


def _serve(link: Link, rank: int) -> None:
    """Runs one body after another."""
    while True:
        body, arguments = link.next_run()
        link.say(body(link, rank, *arguments))


class Ranks:
    """Owns the processes and the store; ends them all on leaving."""

    def __init__(self, patience: float = _SECONDS) -> None:
        """`patience` is in seconds, for any single answer of a rank."""
        self._patience = patience
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOADED)
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._processes: dict[int, tuple[Any, Connection]] = {}
        self._former: list[Any] = []

    @property
    def port(self) -> int:
        return int(self._store.port)

    def start(self, rank: int, body: Body, *arguments: Any) -> None:
        if rank in self._processes:
            self._former.append(self._processes[rank][0])
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_main, args=(theirs, self.port, body, rank, arguments))
        process.start()
        theirs.close()
        self._processes[rank] = (process, mine)

    def hear(self, rank: int) -> Any:
        """The rank's next word. Fails when it ends or stays silent."""
        process, connection = self._processes[rank]
        assert connection.poll(self._patience), f"rank {rank} says nothing"
        try:
            return connection.recv()
        except EOFError:
            process.join(_SECONDS)
            raise AssertionError(f"rank {rank} ended with {process.exitcode}") from None

    def say(self, rank: int, value: Any) -> None:
        self._processes[rank][1].send(value)

    def signal(self, rank: int, number: signal.Signals) -> None:
        os.kill(self._processes[rank][0].pid, number)

    def exit_code(self, rank: int) -> int | None:
        process = self._processes[rank][0]
        process.join(_SECONDS)
        code: int | None = process.exitcode
        return code

    def run(self, size: int, body: Body, *arguments: Any) -> list[Any]:
        """The results of `body(link, rank, size, *arguments)` at each of `size` ranks."""
        for rank in range(size):
            self.start(rank, body, size, *arguments)
        results = [self.hear(rank) for rank in range(size)]
        assert [self.exit_code(rank) for rank in range(size)] == [0] * size
        return results

    def close(self) -> None:
        for process in [*self._former, *(process for process, _ in self._processes.values())]:
            process.kill()
            process.join(_SECONDS)
            process.close()
        for _, connection in self._processes.values():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Crew:
    """Ranks that stay: one body after another runs in the same processes, for starting them takes seconds."""

    def __init__(self) -> None:
        self._ranks: dict[int, Ranks] = {}

    def run(self, size: int, body: Body, *arguments: Any) -> list[Any]:
        """As `Ranks.run`. The body leaves its process as it found it."""
        # Taken out: after a failure nothing of them is used again.
        ranks = self._ranks.pop(size, None) or _started(size)
        try:
            for rank in range(size):
                ranks.say(rank, (body, (size, *arguments)))
            results = [ranks.hear(rank) for rank in range(size)]
        except BaseException:
            ranks.close()
            raise
        self._ranks[size] = ranks
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for ranks in self._ranks.values():
            ranks.close()


def _started(size: int) -> Ranks:
    ranks = Ranks()
    for rank in range(size):
        ranks.start(rank, _serve)
    return ranks


def by_setting(settings: Mapping[str, tuple[int, Any]], body: Body) -> dict[str, list[Any]]:
    """What each rank of each setting reports; `settings` are (ranks, setting) by name, and
    `body(link, rank, size, settings)` trains one after another. Processes are started once for all of a size."""
    found: dict[str, list[Any]] = {}
    for size in sorted({ranks for ranks, _ in settings.values()}):
        own = {name: setting for name, (ranks, setting) in settings.items() if ranks == size}
        with Ranks() as ranks:
            by_rank = ranks.run(size, body, list(own.values()))
        found |= {name: [reports[index] for reports in by_rank] for index, name in enumerate(own)}
    return found


def default_group_exists() -> bool:
    return dist.is_initialized()
