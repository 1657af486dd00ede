"""A commented TrainingJob to begin with, made of the typed spec's own schema: it has every field there is. Pure."""

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ringtrain_operator.api.schema import Schema, structural_schema
from ringtrain_operator.api.spec import GROUP, KIND, VERSION, TrainingJobSpec

_WIDTH = 112
_EMPTY: dict[str, Any] = {"array": [], "object": {}}
_HEAD = """\
# A TrainingJob. #field: value is a field with its default; without the # it is set.
#   on this machine:  ringtrain run -f FILE
#   in a cluster:     ringtrain submit -f FILE
"""


def starter(name: str, spec: Mapping[str, Any]) -> str:
    """YAML of the job `name` in which the fields of `spec` are set and all others are comments."""
    head = [f"apiVersion: {GROUP}/{VERSION}", f"kind: {KIND}", "metadata:", f"  name: {_flow(name)}", "spec:"]
    body = _indented(_fields(structural_schema(TrainingJobSpec, defaults=True), spec), "  ")
    return _HEAD + "".join(f"{line}\n" for line in (*head, *body))


def _fields(schema: Schema, given: Mapping[str, Any] | None) -> Iterator[str]:
    """Of one object, its indentation left out; with `given` None, all fields have their defaults."""
    for name, field in schema["properties"].items():
        is_set = given is None or name in given
        value = (given or {}).get(name)
        block = list(_block(name, field, value))
        yield from _comment(field.get("description", ""))
        yield from block if is_set else (f"#{line}" for line in block)


def _block(name: str, field: Schema, value: Any) -> Iterator[str]:
    if "properties" in field:
        yield f"{name}:"
        yield from _indented(_fields(field, value), "  ")
    else:
        shown = field.get("default", _EMPTY.get(field.get("type", ""))) if value is None else value
        note = f"  # {_choices(field)}" if shown is None or "enum" in field else ""
        yield f"{name}: {_flow(shown)}{note}" if shown is not None else f"{name}:{note}"


def _choices(field: Schema) -> str:
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    return str(field.get("type", "quantity"))


def _flow(value: Any) -> str:
    """On one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def _indented(lines: Iterator[str], indentation: str) -> Iterator[str]:
    return (indentation + line for line in lines)
