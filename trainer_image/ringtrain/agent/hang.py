"""What a rank does that seems to hang."""

import asyncio
import contextlib
import os

from ringtrain.agent.rank_memory import RankMemory
from ringtrain.contract import stack
from ringtrain.processes import state

_SECONDS_TO_ANSWER = 0.5
_STOPPED = "T"
_TRACED = "t"
_IN_THE_KERNEL = "D"


async def look(pid: int, memory: RankMemory) -> str:
    """In words: its Python stack, or why it cannot tell."""
    doing = state(pid)
    if doing in (_STOPPED, _TRACED):
        return f"it is stopped ({'SIGSTOP' if doing == _STOPPED else 'a debugger'})"
    memory.clear_stack()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, stack.SIGNAL)
    await asyncio.sleep(_SECONDS_TO_ANSWER)
    if memory.stack:
        return memory.stack
    return "it waits in the kernel, for a disk perhaps" if doing == _IN_THE_KERNEL else "it does not tell its stack"
