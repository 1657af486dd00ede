"""Who exchanges data with whom, and when: pure.

Were all ranks to gather from all, every one would wait for the slowest, and nobody could tell which that is. So they go
in pairs, each with its two neighbors on a ring of machines: a slow rank is slow with both, its neighbors are so only
with it.
"""

from collections.abc import Sequence

from ringtrain.comm.topology import Topology

Pair = tuple[int, int]


def peers(size: int, processes: int, rank: int) -> tuple[int | None, ...]:
    """Of `rank`, for each step, in which no rank is in two pairs; None: it has none in this step. All of `size` ranks
    have equally many steps. Between machines, of `processes` ranks each; inside the machine where there is but one."""
    topology = Topology.of(range(size), processes)
    ring = topology.twins(rank) if len(topology.machines) > 1 else topology.neighbors(rank)
    return tuple(next((sum(pair) - rank for pair in step if rank in pair), None) for step in ring_steps(ring))


def ring_steps(ring: Sequence[int]) -> list[list[Pair]]:
    """All pairs of neighbors, so that no rank is in two pairs of a step."""
    size = len(ring)
    pairs = [(ring[index], ring[(index + 1) % size]) for index in range(size if size > 2 else size - 1)]
    closing = [pairs.pop()] if size > 2 and size % 2 else []
    return [step for step in (pairs[::2], pairs[1::2], closing) if step]
