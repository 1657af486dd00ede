"""The fields and types of a PodSpec, by the Kubernetes client's own models.

They are read as data (`openapi_types`): the client's constructors take unknown fields in silence and say no paths.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ringtrain_operator.api.problem import Location, Problem, show, unknown_field
from ringtrain_operator.api.quantity import quantity_text

_LIST = re.compile(r"List\[(.+)\]")
_MAP = re.compile(r"Dict\[str, (.+)\]")
_PLAIN = {"str": (str, "a string"), "int": (int, "a whole number"), "bool": (bool, "true or false")}
_QUANTITIES = frozenset({"limits", "requests", "overhead", "sizeLimit", "divisor"})
"""Fields whose strings are quantities, which the models do not tell from other strings."""


def type_problems(spec: Mapping[str, Any], root: Location) -> Iterator[Problem]:
    """Unknown fields, wrong types and missing fields of the PodSpec at `root`, of which itself nothing is required.

    A field that is null is left out.
    """
    return _object("V1PodSpec", spec, root, partial=True)


def _object(model: str, value: Any, location: Location, *, partial: bool = False) -> Iterator[Problem]:
    # Half a second that only jobs with a template pay.
    from kubernetes.client import models

    if not isinstance(value, Mapping):
        yield Problem(location, f"must be a mapping of fields to values, not {show(value)}")
        return
    kind = getattr(models, model)
    names = kind.attribute_map
    types = {names[attribute]: type_name for attribute, type_name in kind.openapi_types.items()}
    required = {names[attribute] for attribute, field in kind.model_fields.items() if field.is_required()}
    for field in sorted(required if not partial else ()):
        if value.get(field) is None:
            yield Problem((*location, field), "is required")
    for field, inner in value.items():
        if field not in types:
            yield unknown_field((*location, field), types)
        elif inner is not None:  # A null takes back what the job itself sets.
            yield from _typed(_precise(field, types[field]), inner, (*location, field))


def _typed(type_name: str, value: Any, location: Location) -> Iterator[Problem]:
    if value is None:
        yield Problem(location, "must not be null: only fields of objects can be taken back")
    elif match := _LIST.fullmatch(type_name):
        yield from _list(match[1], value, location)
    elif match := _MAP.fullmatch(type_name):
        yield from _map(match[1], value, location)
    elif type_name == "quantity":
        yield from _quantity(value, location)
    elif type_name in _PLAIN:
        kind, words = _PLAIN[type_name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            yield Problem(location, f"must be {words}, not {show(value)}")
    elif type_name not in ("object", "datetime"):
        yield from _object(type_name, value, location)


def _list(entry_type: str, value: Any, location: Location) -> Iterator[Problem]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        yield Problem(location, f"must be a list, not {show(value)}")
        return
    for index, entry in enumerate(value):
        yield from _typed(entry_type, entry, (*location, index))


def _map(value_type: str, value: Any, location: Location) -> Iterator[Problem]:
    if not isinstance(value, Mapping):
        yield Problem(location, f"must be a mapping of names to values, not {show(value)}")
        return
    for key, entry in value.items():
        if entry is not None:
            yield from _typed(value_type, entry, (*location, key))


def _precise(field: str, type_name: str) -> str:
    if field not in _QUANTITIES:
        return type_name
    return {"str": "quantity", "Dict[str, str]": "Dict[str, quantity]"}.get(type_name, type_name)


def _quantity(value: Any, location: Location) -> Iterator[Problem]:
    try:
        quantity_text(repr(value) if isinstance(value, float) else value)
    except ValueError as error:
        yield Problem(location, f"{error}, not {show(value)}")
