"""The memory that an agent lends to each of its ranks: anonymous files, which outlive the rank's process."""

VARIABLE = "RINGTRAIN_MEMORY_FDS"
"""The files' descriptors as a rank inherits them, with commas."""
SNAPSHOTS = 2
"""Of the rank's own: while one is written, the other stays whole."""
COPIES = 2
"""Of another machine's rank."""
FILES = 4
"""Of each: an index, and at most three files of a checkpoint."""
TOTAL = (SNAPSHOTS + COPIES) * FILES


def from_text(text: str) -> tuple[int, ...]:
    """`TOTAL` descriptors: those of the snapshots, then those of the copies. Raises ValueError for other texts."""
    descriptors = tuple(map(int, text.split(",")))
    if len(descriptors) != TOTAL:
        raise ValueError(f"{VARIABLE} names {len(descriptors)} descriptors, expected {TOTAL}")
    return descriptors
