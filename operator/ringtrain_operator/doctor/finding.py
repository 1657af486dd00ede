"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be found out; `text` says why."""
    WARN = "WARN"
    """Some jobs will not run."""
    FAIL = "FAIL"
    """No job will run, or one of those that exist does not."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    subject: str
    """What was looked at, in a word or two."""
    text: str
    fix: str = ""
    """What to do, where something is wrong."""
