"""What of a state is no tensor, as `tree.flatten` writes it: JSON, which can be looked at without torch."""

import json
from collections.abc import Iterable
from functools import reduce
from typing import Any


def merge(structures: Iterable[str]) -> str:
    """The JSON of the one tree whose parts `tree.flatten` took: dicts join, other values must be the same in all parts.

    Raises ValueError, naming the path, when they are not.
    """
    merged = reduce(lambda one, other: _merged(one, other, ""), map(json.loads, structures))
    return json.dumps(merged, separators=(",", ":"))


def below(path: str, key: str | int) -> str:
    return f"{path}/{key}" if path else str(key)


def _merged(one: Any, other: Any, path: str) -> Any:
    if isinstance(one, list) and isinstance(other, list) and one[0] == other[0] == "dict":
        items = dict(one[1:])
        for key, value in other[1:]:
            items[key] = _merged(items[key], value, below(path, key)) if key in items else value
        return ["dict", *([key, value] for key, value in items.items())]
    # As text: NaN is the same as NaN, and 1 is not 1.0.
    if json.dumps(one) != json.dumps(other):
        raise ValueError(f"parts of the state differ at {path or 'its top'}")
    return one
