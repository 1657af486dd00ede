"""What an API server does with a TrainingJob before it stores it: defaults, schema, CEL rules."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import cel
from jsonschema import Draft4Validator

from ringtrain_operator.api.crd import custom_resource_definition

SCHEMA: dict[str, Any] = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def job(name: str, spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": deepcopy(spec),
    }


def nodes(
    schema: dict[str, Any] = SCHEMA, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every schema within `schema`, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, (*path, name))
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], (*path, key))


@cache
def rules() -> list[tuple[tuple[str, ...], str]]:
    """Every CEL rule: where it stands, and its expression."""
    found = [(path, node.get("x-kubernetes-validations", ())) for path, node in nodes()]
    return [(path, entry["rule"]) for path, entries in found for entry in entries]


def schema_errors(given: dict[str, Any]) -> list[str]:
    """What the schema says of `given`; unknown fields too, as kubectl's strict validation has it."""
    return [error.message for error in _validator().iter_errors(given)]


@cache
def _validator() -> Draft4Validator:
    return Draft4Validator(_strict(SCHEMA))


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _strict(inner) for name, inner in schema["properties"].items()}
        result["additionalProperties"] = False
    if "items" in schema:
        result["items"] = _strict(schema["items"])
    return result


def defaulted(value: Any, schema: dict[str, Any] = SCHEMA) -> Any:
    """`value` with the schema's defaults in the objects that are there."""
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        filled = {name: deepcopy(inner["default"]) for name, inner in fields.items() if "default" in inner} | value
        rest = schema.get("additionalProperties", {})
        return {name: defaulted(inner, fields.get(name, rest)) for name, inner in filled.items()}
    if isinstance(value, list):
        return [defaulted(entry, schema.get("items", {})) for entry in value]
    return value


def is_transition(expression: str) -> bool:
    """It is about a change: evaluated when there is an object already."""
    return "oldSelf" in expression


def broken_rules(given: dict[str, Any], before: dict[str, Any] | None = None) -> set[tuple[tuple[str, ...], str]]:
    """The CEL rules that refuse `given`, which the schema accepts, in place of `before`."""
    stored, old = defaulted(given), defaulted(before)
    return {
        (path, expression)
        for path, expression in rules()
        for self in _at(stored, path)
        for old_self in (_at(old, path) if is_transition(expression) else [None])
        if not holds(expression, self, old_self)
    }


def holds(expression: str, self: Any, old_self: Any = None) -> bool:
    """Whether the CEL rule is true of `self`; an error in its evaluation is a refusal, as in Kubernetes."""
    try:
        return _program(expression).execute({"self": self, "oldSelf": old_self}) is True
    except (RuntimeError, TypeError, ValueError):
        return False


@cache
def _program(expression: str) -> cel.Program:
    return cel.compile(expression)


def _at(value: Any, path: tuple[str, ...]) -> list[Any]:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]
