"""Which ranks share a machine: pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self


@dataclass(frozen=True, slots=True)
class Topology:
    """Ranks whose gradients are summed, by machine; all machines have equally many."""

    machines: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len({len(ranks) for ranks in self.machines}) != 1 or not self.machines[0]:
            raise ValueError(f"machines of different sizes, or empty ones: {self.machines}")

    @classmethod
    def of(cls, ranks: Sequence[int], processes: int) -> Self:
        """Some of the ranks of machines of `processes` each."""
        machines = groupby(ranks, key=lambda rank: rank // processes)
        return cls(tuple(tuple(members) for _, members in machines))

    @property
    def processes(self) -> int:
        """Of each machine."""
        return len(self.machines[0])

    @property
    def size(self) -> int:
        return len(self.machines) * self.processes

    def machine_of(self, rank: int) -> int:
        return next(index for index, ranks in enumerate(self.machines) if rank in ranks)

    def neighbors(self, rank: int) -> tuple[int, ...]:
        """The ranks of its machine, itself among them."""
        return self.machines[self.machine_of(rank)]

    def twins(self, rank: int) -> tuple[int, ...]:
        """The ranks of the same place in every machine, itself among them, by machine."""
        place = self.neighbors(rank).index(rank)
        return tuple(ranks[place] for ranks in self.machines)
