"""What a rank does that seems to hang."""

import asyncio
import contextlib
import os
from pathlib import Path

from ringtrain.agent.rank_memory import RankMemory
from ringtrain.contract import stack

_SECONDS_TO_ANSWER = 0.5
_STOPPED = "Tt"
_IN_THE_KERNEL = "D"


async def look(pid: int, memory: RankMemory) -> str:
    """In words: its Python stack, or why it cannot tell."""
    state = _state(pid)
    if state and state in _STOPPED:
        return "it is stopped (SIGSTOP, or a debugger)"
    memory.clear_stack()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stack.SIGNAL)
    await asyncio.sleep(_SECONDS_TO_ANSWER)
    if memory.stack:
        return memory.stack
    return "it waits in the kernel, for a disk perhaps" if state == _IN_THE_KERNEL else "it does not tell its stack"


def _state(pid: int) -> str:
    """The kernel's letter for what the process does; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
