"""One line of a replica's log."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from ringtrain.contract.output import split


@dataclass(frozen=True, slots=True)
class LogLine:
    replica: int
    pod: str
    time: datetime | None
    """When it was written; None in run directories, which do not keep it."""
    text: str
    rank: int | None = None
    """Who printed it, where a replica has several ranks; None for its agent, and for all of an only rank's replica."""

    def told_apart(self) -> Self:
        """Of the log of several ranks: with the rank that its prefix names, and without the prefix."""
        rank, text = split(self.text)
        return replace(self, rank=rank, text=text)
