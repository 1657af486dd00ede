"""One thing that is wrong with a spec, in words for the one who wrote it."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

Location = tuple[str | int, ...]
"""Keys and indices from the object's root, such as ("spec", "args", 0)."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_VALUE = 60


@dataclass(frozen=True, slots=True)
class Problem:
    location: Location
    text: str
    """What is wrong and what to do, without a full stop."""

    def __str__(self) -> str:
        return f"{field_path(self.location)}: {self.text}"


def field_path(location: Location) -> str:
    """`spec.args[0]`, `spec.resources.limits[nvidia.com/gpu]`."""
    path = ""
    for part in location:
        if isinstance(part, str) and _PLAIN_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            path += f"[{_short(part) if isinstance(part, str) else part}]"
    return path


def show(value: Any) -> str:
    """`value` as it stands in JSON, cut to a readable length."""
    return _short(json.dumps(value, default=str))


def unknown_field(location: Location, known: Iterable[str]) -> Problem:
    """`location` ends with a field that is not among `known`."""
    close = get_close_matches(str(location[-1]), tuple(known), n=1)
    return Problem(location, f"unknown field: did you mean {close[0]}?" if close else "unknown field: remove it")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
