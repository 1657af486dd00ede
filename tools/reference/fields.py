"""docs/fields.md: every field of a TrainingJob, from the CustomResourceDefinition."""

from collections.abc import Iterator
from typing import Any

from reference.tables import table
from ringtrain_operator.api.crd import custom_resource_definition
from ringtrain_operator.api.defaultable import DEFAULTABLE, Fields
from ringtrain_operator.api.schema import Schema, structural_schema
from ringtrain_operator.api.spec import TrainingJobSpec

_HEAD = """\
# Fields of a TrainingJob

Written by `PYTHONPATH=tools python -m reference`, from the typed spec. `kubectl explain tj.spec --recursive` shows the
same, and `ringtrain init NAME` writes a job with every field as a comment. Which of them can be changed when: [the life
of a job](lifecycle.md#changed).

\\* Administrators may have set [another default](operating.md#defaults-for-all-jobs).
"""
_INTEGER_OR_STRING = "x-kubernetes-int-or-string"
_RULES = "x-kubernetes-validations"


def text() -> str:
    """Of the whole page."""
    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    whole = structural_schema(TrainingJobSpec, defaults=True)
    fields = (*_objects("spec", whole, spec, DEFAULTABLE), *_objects("status", status, status, {}))
    return "\n".join([_HEAD, *_rules(schema), *fields])


def _objects(path: str, schema: Schema, stored: Schema, defaultable: Fields) -> Iterator[str]:
    """A section for the object `path`, and one for each object below it. `stored` is it in the CRD, with its rules,
    and without defaults of the fields `defaultable`."""
    fields = schema["properties"]
    yield f"## {path}\n"
    if "description" in schema:
        yield f"{_plain(schema['description'])}\n"
    yield from _rules(stored)
    required = schema.get("required", ())
    yield table(
        ("field", "type", "default", "meaning"),
        ((name, _type(f"{path}.{name}", field), _default(field, name in required, defaultable.get(name) is True),
          _plain(field["description"]))
         for name, field in fields.items()),
    )  # fmt: skip
    for name, field in fields.items():
        if (inner := _object(field)) is not None:
            below = _defaultable_within(field, defaultable.get(name))
            yield from _objects(f"{path}.{name}", inner, _object(stored["properties"][name]) or {}, below)


def _defaultable_within(field: Schema, defaultable: Fields | bool | None) -> Fields:
    """A list is a default as a whole."""
    if defaultable is True:
        return dict.fromkeys(field.get("properties", {}), True)
    return defaultable or {}


def _rules(schema: Schema) -> Iterator[str]:
    if _RULES in schema:
        yield "Refused (by the API server from Kubernetes 1.25 on, and by the operator) in these words:\n"
        yield "\n".join(f"* {_plain(rule['message'])}" for rule in schema[_RULES]) + "\n"


def _object(field: Schema) -> Schema | None:
    """The object with fields of its own that `field` is, or whose list it is."""
    inner = field.get("items", field)
    return inner if "properties" in inner else None


def _type(path: str, field: Schema) -> str:
    if "items" in field:
        return f"list of {_type(path, field['items'])}"
    if "properties" in field:
        return f"[object](#{path.replace('.', '').lower()})"
    if "additionalProperties" in field:
        return f"map to {_type(path, field['additionalProperties'])}"
    if _INTEGER_OR_STRING in field:
        return "quantity"
    if "enum" in field:
        return ", ".join(_code(value) for value in field["enum"])
    return str(field["type"]) + _range(field)


def _range(field: Schema) -> str:
    least, greatest = field.get("minimum"), field.get("maximum")
    parts = []
    if least is not None:
        parts.append(f"{'>' if field.get('exclusiveMinimum') else '≥'} {least:g}")
    if greatest is not None:
        parts.append(f"{'<' if field.get('exclusiveMaximum') else '≤'} {greatest:.10g}")
    return f" {', '.join(parts)}" if parts else ""


def _default(field: Schema, required: bool, defaultable: bool) -> str:
    default = field.get("default")
    text = "required" if required else "" if default in (None, {}) else _code(default)
    # Of an object, its fields have the mark.
    return f"{text} \\*".strip() if defaultable and "properties" not in field else text


def _code(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{', '.join(value) if isinstance(value, list) else value}`"


def _plain(said: str) -> str:
    """Without what Markdown would take for a tag."""
    return said.replace("<", "&lt;")
