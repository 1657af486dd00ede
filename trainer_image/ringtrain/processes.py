"""Child processes with an owner: each dies with its parent, is reaped, and takes its process group along."""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int | None = None) -> None:
    """The kernel kills this process when its parent ends; at once when its parent is not `parent` any more."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Descendants whose parents ended become children of this process, so that `Children` reaps them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def state(pid: int) -> str:
    """The kernel's letter for what a process does; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def is_stopped(pid: int) -> bool:
    """By a signal; by a debugger does not count."""
    return state(pid) == "T"


class Child:
    """A running child process, the leader of its own session and process group."""

    def __init__(self, pid: int, process: subprocess.Popen[bytes] | None) -> None:
        """`process` is None for one that was adopted."""
        self.pid = pid
        self.process = process
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + the signal's number when it died of one."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Its exit code."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """SIGKILL to its whole process group; nothing when it has ended (its group was killed then)."""
        if not self._ended.done():
            os.killpg(self.pid, signal.SIGKILL)

    def kill_if_stopped(self) -> bool:
        """Whether a signal had stopped it: then it does nothing for those who wait for it, and would not end by
        itself."""
        stopped = not self._ended.done() and is_stopped(self.pid)
        if stopped:
            self.kill()
        return stopped

    def terminate(self) -> None:
        """SIGTERM to its whole process group."""
        if not self._ended.done():
            os.killpg(self.pid, signal.SIGTERM)

    def _end(self, exit_code: int) -> None:
        if self.process is not None:
            # Popen must not wait for a process that is reaped already.
            self.process.returncode = exit_code
        self._ended.set_result(exit_code)


class Children:
    """Starts the children of this process and reaps each one, adopted orphans too.

    One per process, created in its main thread inside a running event loop.
    """

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        pass_fds: Sequence[int] = (),
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> Child:
        """Raises OSError when the command cannot be started."""
        parent = os.getpid()
        process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=pass_fds,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )
        return self._watched(Child(process.pid, process))

    def adopt(self, pid: int) -> Child:
        """An orphan that came to this process (see `adopt_orphans`), and leads a session of its own. To be called
        before it can have ended."""
        return self._watched(Child(pid, None))

    def _watched(self, child: Child) -> Child:
        self._running[child.pid] = child
        return child

    def _reap(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            child = self._running.pop(ended.si_pid, None)
            if child is not None:
                # Before it is reaped its number cannot belong to anybody else.
                os.killpg(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            if child is not None:
                code = os.waitstatus_to_exitcode(status)
                child._end(code if code >= 0 else 128 - code)
