"""What another release of the operator has stored, for the model of this one."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ValidationError


def pruned(model: type[BaseModel], raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """`raw` without the fields that `model` does not know, as an API server prunes by a schema. Whatever else is wrong
    stays."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        unknown = [found["loc"] for found in error.errors(include_url=False) if found["type"] == "extra_forbidden"]
        return _without(raw, unknown) if unknown else raw
    return raw


def _without(raw: Mapping[str, Any], locations: list[tuple[int | str, ...]]) -> dict[str, Any]:
    copy: dict[str, Any] = deepcopy(dict(raw))
    for *path, field in locations:
        holder: Any = copy
        for part in path:
            holder = holder[part]
        del holder[field]
    return copy
