"""How a bucket is cut for its all-reduce: pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

PART_VALUES = 1 << 18
"""The most values of one message: so large that latency does not count, so small that a bucket's encoding, sending and
adding overlap."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bucket that is all-reduced by itself, in values of the bucket."""

    offset: int
    numel: int


@dataclass(frozen=True, slots=True)
class Cut:
    """`machines` machines of `processes` processes each, and a codec's block."""

    machines: int
    processes: int
    block: int

    @property
    def unit(self) -> int:
        """Every segment is a multiple of it: then all parts are equal, and begin at a block."""
        return self.machines * self.processes * self.block

    def padded(self, numel: int) -> int:
        """The least length from `numel` up that can be cut."""
        return -(-numel // self.unit) * self.unit

    def segments(self, padded: int) -> Iterator[Segment]:
        """Covers a bucket of a length that `padded` gave, in order. As even as can be."""
        units = padded // self.unit
        count = -(-units * self.block // PART_VALUES) or 1
        bounds = [units * index // count * self.unit for index in range(count + 1)]
        return (Segment(begin, end - begin) for begin, end in pairwise(bounds) if end > begin)
