"""The membership's number."""

import re
from dataclasses import dataclass
from typing import Self

_TEXT = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, order=True, slots=True)
class Generation:
    """(epoch, attempt), compared in that order: the operator alone raises the epoch, the coordinator the attempt."""

    epoch: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is not `EPOCH.ATTEMPT`."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a generation: expected EPOCH.ATTEMPT, such as 2.0")
        return cls(int(match[1]), int(match[2]))
