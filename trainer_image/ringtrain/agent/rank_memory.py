"""The memory that this agent lends to one of its ranks: it outlives the rank's process, and ends with the agent."""

import os

from ringtrain.contract import memory


class RankMemory:
    """Anonymous files. They take no memory until the rank writes them."""

    def __init__(self, rank: int) -> None:
        self.descriptors = tuple(os.memfd_create(f"ringtrain-rank{rank}-{index}") for index in range(memory.TOTAL))

    @property
    def variables(self) -> dict[str, str]:
        """For the rank's environment; it inherits the descriptors under their numbers."""
        return {memory.VARIABLE: memory.to_text(self.descriptors)}
