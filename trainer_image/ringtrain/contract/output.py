"""How the log of a replica with several ranks tells their lines apart. The agent's own lines have no prefix."""

import re

_PREFIXED = re.compile(r"\[rank ([0-9]{1,9})\] ")


def prefix(rank: int) -> str:
    """What each line of a rank begins with."""
    return f"[rank {rank}] "


def split(line: str) -> tuple[int | None, str]:
    """The rank that printed `line`, and what it printed; None and the whole line when no rank did."""
    found = _PREFIXED.match(line)
    return (int(found[1]), line[found.end() :]) if found else (None, line)
