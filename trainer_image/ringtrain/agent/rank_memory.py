"""The memory that this agent lends to one of its ranks: it outlives the rank's process, and ends with the agent."""

import os
from collections.abc import Mapping, Sequence

from ringtrain.contract import memory, stack

_LONGEST_STACK = 2000


class RankMemory:
    """Anonymous files. They take no memory until the rank writes them."""

    def __init__(self, rank: int) -> None:
        names = [f"ringtrain-rank{rank}-{index}" for index in range(memory.TOTAL)]
        self._stack = os.memfd_create(f"ringtrain-rank{rank}-stack", os.MFD_CLOEXEC)
        self.descriptors: Mapping[str, Sequence[int]] = {
            memory.VARIABLE: [os.memfd_create(name) for name in names],
            stack.VARIABLE: [self._stack],
        }
        """By the variable that tells the rank of them."""

    def clear_stack(self) -> None:
        """Before the rank is asked for its stack."""
        os.ftruncate(self._stack, 0)
        os.lseek(self._stack, 0, os.SEEK_SET)

    @property
    def stack(self) -> str:
        """What the rank wrote when it was asked; the innermost calls of it, if it is long."""
        return os.pread(self._stack, _LONGEST_STACK, 0).decode(errors="replace").strip()
