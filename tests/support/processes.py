"""Processes of jobs, found by the variables that they were started with: also those inside of a test bed's pods."""

import contextlib
import os
import signal
from pathlib import Path


def processes(**variables: str) -> list[int]:
    """Every living process in whose environment `variables` are, whatever namespaces it is in."""
    marks = {f"{name}={value}".encode() for name, value in variables.items()}
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [pid for pid in pids if marks <= set(_words(pid, "environ"))]


def running(module: str, pids: list[int]) -> list[int]:
    """Those of `pids` that run `python -m module`, and their forks."""
    return [pid for pid in pids if module.encode() in _words(pid, "cmdline")]


def send(pid: int, number: signal.Signals) -> None:
    """To a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _words(pid: int, file: str) -> list[bytes]:
    """Empty for zombies and for processes that have just ended."""
    try:
        return (Path("/proc") / str(pid) / file).read_bytes().split(b"\0")
    except OSError:
        return []
