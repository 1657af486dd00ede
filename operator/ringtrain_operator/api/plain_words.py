"""What pydantic finds wrong, in plain words."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ringtrain_operator.api.names import (
    CONTROLLER_NAME,
    DNS_LABEL_1123,
    DNS_SUBDOMAIN,
    LABEL_KEY,
    LABEL_VALUE,
    QUALIFIED_RESOURCE,
)
from ringtrain_operator.api.problem import Location, Problem, show, unknown_field

PATTERNS = {
    DNS_LABEL_1123: "must be a name of lower-case letters, digits and dashes",
    DNS_SUBDOMAIN: "must be a name of lower-case letters, digits, dashes and dots",
    f"^$|{DNS_SUBDOMAIN}": "must be a name of lower-case letters, digits, dashes and dots",
    QUALIFIED_RESOURCE: "must be a resource name with its domain, such as nvidia.com/gpu",
    CONTROLLER_NAME: "must be a domain and a path, such as ringtrain.io/operator",
    LABEL_KEY: "must be a label's key: [domain/]name, the name within 63 characters",
    LABEL_VALUE: "must be letters, digits, dashes, underscores and dots, and begin and end with a letter or digit",
    r"^\S+$": "must not contain spaces",
    r"^(bytes|.*\.json)$": "must be `bytes` or the path of a .json file of Hugging Face tokenizers",
}
"""What each pattern of the spec asks for."""

_Words = Callable[[Mapping[str, Any]], str]

_KINDS: Mapping[str, _Words] = {
    "bool_type": lambda _: "must be true or false",
    "dict_type": lambda _: "must be a mapping of fields to values",
    "enum": lambda limits: f"must be {limits['expected'].replace(chr(39), '')}",
    "float_type": lambda _: "must be a number",
    "greater_than": lambda limits: f"must be more than {limits['gt']:g}",
    "greater_than_equal": lambda limits: f"must be at least {limits['ge']:g}",
    "int_type": lambda _: "must be a whole number",
    "less_than": lambda limits: f"must be less than {limits['lt']:.15g}",
    "less_than_equal": lambda limits: f"must be at most {limits['le']:.15g}",
    "literal_error": lambda limits: f"must be {limits['expected'].replace(chr(39), '')}",
    "model_type": lambda _: "must be a mapping of fields to values",
    "string_pattern_mismatch": lambda limits: PATTERNS[limits["pattern"]],
    "string_too_long": lambda limits: f"must have at most {limits['max_length']} characters",
    "string_too_short": lambda _: "must not be empty",
    "string_type": lambda _: "must be a string",
    "too_long": lambda limits: f"must have at most {limits['max_length']} entries",
    "too_short": lambda limits: f"must have at least {limits['min_length']} entry",
    "tuple_type": lambda _: "must be a list",
    "value_error": lambda limits: str(limits["error"]),
}
_WITHOUT_VALUE = frozenset({"model_type", "string_too_short", "too_long", "too_short"})


def problems(error: ValidationError, model: type[BaseModel], root: Location) -> Iterator[Problem]:
    """All of `error`, which validating `model` at `root` raised."""
    found = error.errors(include_url=False)
    for details in found:
        # Lists with a wrong entry are also said to be too short: entries count once they are right.
        if not any(other["loc"][: len(details["loc"])] == details["loc"] != other["loc"] for other in found):
            yield _problem(details, model, root)


def _problem(details: ErrorDetails, model: type[BaseModel], root: Location) -> Problem:
    location = root + details["loc"]
    kind = details["type"]
    if kind == "missing":
        return Problem(location, "is required")
    if kind == "extra_forbidden":
        return unknown_field(location, _fields(model, details["loc"][:-1]))
    words = _KINDS[kind](details.get("ctx", {})) if kind in _KINDS else details["msg"]
    value = details["input"]
    if kind in _WITHOUT_VALUE or (kind == "value_error" and isinstance(value, Mapping)):
        return Problem(location, words)
    return Problem(location, f"{words}, not {show(value)}")


def _fields(model: type[BaseModel], location: Location) -> list[str]:
    """The fields of the model within `model` at `location`."""
    for part in location:
        field = next((info for info in model.model_fields.values() if info.alias == part), None)
        inner = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next((kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return [info.alias or name for name, info in model.model_fields.items()]
