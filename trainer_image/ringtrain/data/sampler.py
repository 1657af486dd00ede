"""Which sequences a rank reads next: pure arithmetic on a global position."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def epoch_order(seed: int, epoch: int, sequences: int) -> NDArray[np.int64]:
    """The permutation of range(sequences) in which `epoch` reads the corpus: int64 [sequences]."""
    return np.random.Generator(np.random.Philox([seed, epoch])).permutation(sequences)


@dataclass(frozen=True, slots=True)
class Draw:
    """One sequence to read."""

    position: int
    """Its place in the endless global order: how many sequences come before it."""
    sequence: int
    """Its index in the corpus."""


class Sampler:
    """Deals the endless global order (epoch after epoch, each its own permutation unless `shuffle` is false) out to the
    ranks.

    A micro-batch of all ranks takes the next world_size * per_rank sequences, rank r the r-th part of them. So the
    position, one number that is the same on all ranks, is the whole state; ranks never read the same place, and
    another world size goes on at the same position without repeating or skipping.
    """

    def __init__(self, sequences: int, seed: int, shuffle: bool = True) -> None:
        self._sequences = sequences
        self._seed = seed
        self._shuffle = shuffle
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def draw(self, position: int, rank: int, world_size: int, per_rank: int) -> list[Draw]:
        """What `rank` reads when `position` sequences were consumed by all ranks together."""
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of a world of {world_size}")
        first = position + rank * per_rank
        return [Draw(place, self._sequence(place)) for place in range(first, first + per_rank)]

    def _sequence(self, position: int) -> int:
        epoch, index = divmod(position, self._sequences)
        if not self._shuffle:
            return index
        if epoch != self._epoch:
            self._epoch, self._order = epoch, epoch_order(self._seed, epoch, self._sequences)
        return int(self._order[index])
