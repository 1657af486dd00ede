"""The memory that an agent lends to each of its ranks: anonymous files, which outlive the rank's process."""

from collections.abc import Sequence

VARIABLE = "RINGTRAIN_MEMORY_FDS"
"""The files' descriptors as a rank inherits them, with commas."""
SNAPSHOTS = 2
"""Of the rank's own: while one is written, the other stays whole."""
COPIES = 2
"""Of another machine's rank."""
FILES = 4
"""Of each: an index, and at most three files of a checkpoint."""
TOTAL = (SNAPSHOTS + COPIES) * FILES


def to_text(descriptors: Sequence[int]) -> str:
    """`TOTAL` of them: those of the snapshots, then those of the copies."""
    return ",".join(map(str, descriptors))


def from_text(text: str) -> tuple[int, ...]:
    """Raises ValueError when it is not `to_text`'s."""
    descriptors = tuple(map(int, text.split(",")))
    if len(descriptors) != TOTAL:
        raise ValueError(f"{VARIABLE} names {len(descriptors)} descriptors, expected {TOTAL}")
    return descriptors
