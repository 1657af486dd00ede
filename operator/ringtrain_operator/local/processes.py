"""Starting and ending the processes of a pod so that none is left behind (Linux)."""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_PROC = Path("/proc")


async def start(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, output: int
) -> asyncio.subprocess.Process:
    """A process in its own session (a terminal's Ctrl-C does not reach it) that dies with this one.

    Its output goes to the file descriptor `output`. Raises OSError when it cannot be started.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)

    return await asyncio.create_subprocess_exec(
        *arguments,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


async def kill_marked(variable: str, value: str, seconds: float = 10.0) -> bool:
    """Kills every process that was started with `variable=value` in its environment, as the end of a container would.

    False when some are still there after `seconds` (in uninterruptible sleep).
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while pids := _marked(f"{variable}={value}".encode()):
        if loop.time() > deadline:
            return False
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.02)
    return True


def _marked(mark: bytes) -> list[int]:
    found = []
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        # Processes of other users, and zombies, whose environment is gone, are none that could be killed.
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def exit_code(returncode: int) -> int:
    """As a container's: 128 + the signal's number for a process that a signal ended."""
    return 128 - returncode if returncode < 0 else returncode
