"""A training job of some system: what the recovery benchmark needs of it."""

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from recovery_results import RANKS
from recovery_rounds import Finished

_MARK = "BENCH_RECOVERY"
_SECONDS = 120.0


class System:
    """Leaving the context kills every process that it started, however deep it lies."""

    def __init__(self, directory: Path) -> None:
        """`directory` is its own."""
        self.directory = directory
        self.log = directory / "log"
        """What its launchers say."""
        self.finished: list[Finished] = []
        """In the order of time. Filled by a thread."""
        self._mark = f"{_MARK}={uuid.uuid4()}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Returns at once."""
        raise NotImplementedError

    def strike(self, fault: str) -> None:
        """Does it."""
        raise NotImplementedError

    def after(self, fault: str) -> None:
        """What the system itself cannot mend is mended, once everything was measured."""

    def steps(self, fault_at: float, until: float) -> dict[str, float]:  # noqa: ARG002
        """Seconds by step of the recovery, as far as the system tells them."""
        return {}

    def close(self) -> None:
        """Kills, until nothing is left."""
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def until_whole(self, rounds: int) -> None:
        """Until all ranks have finished so many rounds from now on. Raises TimeoutError."""
        begin = len(self.finished)
        deadline = time.monotonic() + _SECONDS
        while len({each.round for each in self.finished[begin:] if each.size == RANKS}) < rounds:
            if time.monotonic() > deadline:
                said = self.log.read_text(errors="replace")[-4000:]
                raise TimeoutError(f"waited {_SECONDS:.0f} s in vain for {rounds} rounds of all ranks:\n{said}")
            time.sleep(0.02)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """For its processes, which inherit it."""
        name, _, value = self._mark.partition("=")
        return {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", name: value, **more}

    def processes(self, *marks: str) -> list[int]:
        """Those that live, and were started with all of the variables."""
        wanted = {mark.encode() for mark in (self._mark, *marks)}
        return [pid for pid in _pids() if wanted <= set(_read(pid, "environ"))]

    def running(self, module: str, *marks: str) -> int:
        """The one process of those that runs `python -m MODULE`."""
        (pid,) = [pid for pid in self.processes(*marks) if module.encode() in _read(pid, "cmdline")]
        return pid


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _read(pid: int, name: str) -> list[bytes]:
    """Empty for zombies, and for processes that have just ended."""
    try:
        return (Path("/proc") / str(pid) / name).read_bytes().split(b"\0")
    except OSError:
        return []
