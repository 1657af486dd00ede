"""The ranks of one row of the checkpoint benchmark, from their first round to a restore in new processes."""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch._C._distributed_c10d import TCPStore

from checkpoint_coordinator import Coordinator
from checkpoint_memory import Watch
from checkpoint_ours import settings_of
from checkpoint_results import EVERY, FLOOR, OURS, RINGTRAIN_VOLUME, Cycle, Once, Row
from ringtrain.contract import memory
from ringtrain.contract.addresses import Addresses
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.generation import Generation
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, TrainerConfig

_SECONDS = 600.0
_END_SECONDS = 10.0
_RESTORES = 3


class Job:
    """Leaving the context ends its processes, and lets go of their memory."""

    def __init__(self, row: Row, root: Path) -> None:
        """`root` is a directory for its checkpoints alone."""
        self._row = row
        self._root = root
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._memory = [[os.memfd_create("bench") for _ in range(memory.TOTAL)] for _ in range(row.ranks)]
        """Each rank's, as its agent would lend it: it outlives the rank's process."""
        self._attempt = 0
        self._processes: list[subprocess.Popen[str]] = []
        self._number = 1
        self._parameters = 0
        self._first_stall = 0.0
        self._peak = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_processes()
        for descriptor in chain.from_iterable(self._memory):
            os.close(descriptor)

    def warm_up(self) -> None:
        """Starts the ranks, which then save twice while they train: memory is touched, and watched."""
        self._start(lend=True)
        with Watch([process.pid for process in self._processes]) as watch:
            found = [self._rounds(1), self._rounds(2), self._rounds(2)]
        self._peak = watch.peak_bytes
        stalls = [stall for cycle in found for stall, saved in zip(cycle.stalls, cycle.saved, strict=True) if saved]
        self._first_stall = next(iter(stalls), 0.0)

    def cycle(self, rounds: int) -> Cycle:
        """That many; what is due is saved after the first one, and every EVERY later."""
        return self._rounds(rounds)

    def end(self) -> Once:
        """Saves a last time, and restores that in new processes. Raises RuntimeError when they have something else."""
        self._rounds(1)
        last = self._number - EVERY
        saved = self._all(do="digest")
        self._end_processes()
        restores = []
        if self._row.way != FLOOR:
            # The volume's way is to be read from there.
            self._start(lend=self._row.way != RINGTRAIN_VOLUME)
            restores = [max(self._all(do="restore", round=last)) for _ in range(_RESTORES)]
            if self._all(do="digest") != saved:
                raise RuntimeError(f"{self._row} was not restored as it was saved")
        return Once(
            parameters=self._parameters,
            first_stall=self._first_stall,
            peak_bytes=self._peak,
            restores=restores,
        )

    def _rounds(self, count: int) -> Cycle:
        numbers = range(self._number, self._number + count)
        # The next ones begin with one after which a save is due.
        self._number = -(-numbers.stop // EVERY) * EVERY
        answers = self._all(do="rounds", numbers=list(numbers))
        started: dict[str, float] = {}
        flushed = {str(round): when for round, when in self._coordinator.committed.items()}
        for answer in answers:
            flushed |= answer["flushed"]
            for round, when in answer["started"].items():
                started[round] = min(when, started.get(round, when))
        return Cycle(
            seconds=[max(values) for values in zip(*(answer["seconds"] for answer in answers), strict=True)],
            stalls=[max(values) for values in zip(*(answer["stalls"] for answer in answers), strict=True)],
            saved=[any(values) for values in zip(*(answer["saved"] for answer in answers), strict=True)],
            writes=[flushed[round] - when for round, when in started.items() if round in flushed],
            bytes=_newest_bytes(self._root),
            load=os.getloadavg()[0],
        )

    def _start(self, *, lend: bool) -> None:
        self._attempt += 1
        generation = Generation(1, self._attempt)
        self._coordinator = Coordinator(self._root, generation, self._row.ranks, self._store.port)
        place = {
            "way": self._row.way,
            "root": str(self._root),
            "port": self._store.port,
            "generation": str(generation),
        }
        for rank, lent in enumerate(self._memory):
            self._start_rank(rank, json.dumps(place), lent if lend else [])
        self._parameters = self._hear()[0]

    def _start_rank(self, rank: int, place: str, lent: list[int]) -> None:
        program = str(Path(__file__).with_name("checkpoint_rank.py"))
        with self._coordinator.connect() as connection:
            variables = {
                **self._environment(rank).to_env(),
                **({memory.VARIABLE: ",".join(map(str, lent))} if lent else {}),
                "RINGTRAIN_RANK_FD": str(connection.fileno()),
                "LOCAL_RANK": "0",
                # What torch starts by itself is to be found, and to leave the cores to others.
                "MASTER_ADDR": "127.0.0.1",
                "GLOO_SOCKET_IFNAME": "lo",
                "OMP_NUM_THREADS": "1",
            }
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, program, place],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    # A session of its own: Ctrl-C is for the benchmark, which then ends its ranks.
                    start_new_session=True,
                    env={**os.environ, **variables},
                    pass_fds=[connection.fileno(), *lent],
                )
            )

    def _environment(self, rank: int) -> ReplicaEnvironment:
        row = self._row
        model = ModelConfig(layers=row.layers, width=row.width, heads=row.heads)
        return ReplicaEnvironment(
            job="bench",
            namespace="default",
            replica=rank,
            replicas=row.ranks,
            procs_per_replica=1,
            epoch=1,
            addresses=Addresses("loopback", "127.9"),
            device="cpu",
            checkpoint=settings_of(row.way, self._root) if row.way in OURS else None,
            communication=CommunicationConfig(codec="none"),
            trainer=TrainerConfig(
                rounds=1000,
                model=model,
                data=DataConfig(paths=("{stdlib}/*.py",)),
                batch=BatchConfig(per_rank=row.per_rank),
            ),
        )

    def _all(self, **order: Any) -> list[Any]:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        return self._hear()

    def _hear(self) -> list[Any]:
        answers = []
        for rank, process in enumerate(self._processes):
            assert process.stdout is not None
            if not select.select([process.stdout], [], [], _SECONDS)[0]:
                raise RuntimeError(f"rank {rank} of {self._row} says nothing")
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"rank {rank} of {self._row} ended with {process.wait()}")
            answers.append(json.loads(line))
        return answers

    def _end_processes(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()
            process.communicate()
        self._processes.clear()


def _newest_bytes(root: Path) -> int:
    """Of the newest checkpoint there; 0 without one."""
    found = max(root.iterdir(), key=lambda path: path.stat().st_mtime, default=None)
    return sum(path.stat().st_size for path in found.rglob("*")) if found is not None else 0
