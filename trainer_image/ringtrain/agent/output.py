"""What ranks print, when a replica has several: every line with its rank, on the agent's own standard output."""

import asyncio
import os
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Self

from ringtrain.contract.output import prefix

LONGEST_LINE = 64 << 10
"""Bytes. A longer line is passed on in pieces of so many, each as a line."""
_one_at_a_time = threading.Lock()


class Output:
    """The pipe for one process of a rank: its `descriptor` becomes standard output and error of the process.

    A context manager: leaving it closes the agent's copy of that end, so that the pipe ends with the process and its
    descendants. A thread of its own reads the other end: a log that nobody takes must not stop the agent. Create it
    inside a running event loop; raises OSError.
    """

    def __init__(self, rank: int, log: int | None = None) -> None:
        """`log` is the descriptor to write to: by default this process's standard output."""
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when all that was printed is in the log, and nobody can print more."""
        self._log = sys.stdout.fileno() if log is None else log
        self._prefix = prefix(rank).encode()
        reading, self.descriptor = os.pipe()
        threading.Thread(target=self._run, args=[reading], name=f"output of rank {rank}", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def _run(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            _relay(pipe, self._prefix, self._log)
        # The loop may be closed by now: then nobody waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ended.set_result, None)


def _relay(pipe: BinaryIO, prefix: bytes, log: int) -> None:
    """What the log does not take is lost: a rank must not fail, or wait, for a full disk."""
    while line := pipe.readline(LONGEST_LINE):
        with suppress(OSError):
            _write(log, prefix + line + (b"" if line.endswith(b"\n") else b"\n"))


def _write(log: int, line: bytes) -> None:
    """All of it before another line: a pipe takes as much as it has room for."""
    with _one_at_a_time:
        while line:
            line = line[os.write(log, line) :]
