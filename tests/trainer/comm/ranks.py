"""Real ranks on loopback for tests: processes of a fork server that has imported torch once, and a store."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from ringtrain.comm.group import Group, form_group

_SECONDS = 120.0
"""For any single answer of a rank."""


class Left(Exception):
    """The test told this rank to leave its collectives."""


class Link:
    """A rank's end of its pipe to the test."""

    def __init__(self, connection: Connection, port: int) -> None:
        self._connection = connection
        self.port = port

    def say(self, value: Any) -> None:
        self._connection.send(value)

    def hear(self) -> Any:
        return self._connection.recv()

    def poll(self) -> None:
        if self._connection.poll():
            raise Left(self.hear())

    def form(
        self, rank: int, size: int, generation: str = "0.0", seconds: float = _SECONDS, processes: int = 1
    ) -> Group:
        address = f"127.9.0.{rank + 1}"
        timeout = timedelta(seconds=seconds)
        return form_group(rank, size, "127.0.0.1", self.port, generation, "cpu", address, timeout, self.poll, processes)


Body = Callable[..., Any]
"""Runs in the rank: body(link, rank, *arguments); its result is sent to the test."""


def _main(connection: Connection, port: int, body: Body, rank: int, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    link = Link(connection, port)
    link.say(body(link, rank, *arguments))


class Ranks:
    """Owns the processes and the store; ends them all on leaving."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["ringtrain.comm.reducer", "ringtrain.models", "ringtrain.data"])
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
        assert connection.poll(_SECONDS), f"rank {rank} says nothing"
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self._former, *(process for process, _ in self._processes.values())]:
            process.kill()
            process.join(_SECONDS)
            process.close()
        for _, connection in self._processes.values():
            connection.close()


def default_group_exists() -> bool:
    return dist.is_initialized()
