"""A copy of what YAML or a client gave, in the types of JSON."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from ringtrain_operator.api.problem import Location, Problem

_DEEPEST = 64
_LARGEST = 2**63 - 1


class NotPlain(ValueError):
    """Something is no JSON, or too large for Kubernetes to hold; `problem` says what."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


def plain_json(value: Any, location: Location, nulls_below: Location) -> Any:
    """A copy of dicts, lists and scalars, without the fields that are null: like Kubernetes, these count as absent.

    Only below `nulls_below` they are kept. Raises NotPlain, naming the first place that is no JSON.
    """
    if len(location) > _DEEPEST:
        raise NotPlain(Problem(location[:3], f"is nested more than {_DEEPEST} levels deep"))
    if isinstance(value, Mapping):
        return _mapping(value, location, nulls_below)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return [plain_json(entry, (*location, index), nulls_below) for index, entry in enumerate(value)]
    if isinstance(value, str):
        return _text(value, location)
    if isinstance(value, float) and not isfinite(value):
        raise NotPlain(Problem(location, f"is {value}: it must be a finite number"))
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise NotPlain(Problem(location, "is too large a number"))
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise NotPlain(Problem(location, f"is a {type(value).__name__}: write it in quotes"))


def _mapping(value: Mapping[Any, Any], location: Location, nulls_below: Location) -> dict[str, Any]:
    copy = {}
    keeps_nulls = location[: len(nulls_below)] == nulls_below
    for key, inner in value.items():
        if not isinstance(key, str):
            raise NotPlain(Problem(location, f"has the key {key!r:.60}, which is no string: write it in quotes"))
        if inner is not None or keeps_nulls:
            copy[_text(key, location)] = plain_json(inner, (*location, key), nulls_below)
    return copy


def _text(value: str, location: Location) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotPlain(Problem(location, "is not valid Unicode text")) from None
    return value
