"""How checkpoints are shown: aligned text, the same in a terminal and in a pipe."""

from collections.abc import Sequence
from datetime import timedelta

_UNITS = ("B", "kB", "MB", "GB", "TB")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row; every row has as many cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def size_text(size: int) -> str:
    """Bytes, such as 4.9 MB."""
    value, unit = float(size), 0
    # Not 1000.0 kB: what would be rounded to that is 1.0 MB.
    while value >= 999.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{size} B"


def age_text(age: timedelta) -> str:
    """In the largest unit that fits, such as 5m; a clock that is behind makes it 0s."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
