"""Paths of the fields of a CRD's schema."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ringtrain_operator.api.crd import custom_resource_definition

_OURS = ("spec", "status")


def fields_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Such as spec.trainer.rounds and status.failures[].reason."""
    properties = schema.get("properties", {})
    return frozenset(path for name in _OURS if name in properties for path in _walk(name, properties[name]))


@functools.cache
def known_fields() -> frozenset[str]:
    """Those of this version."""
    (version,) = custom_resource_definition()["spec"]["versions"]
    return fields_of(version["schema"]["openAPIV3Schema"])


def _walk(path: str, node: Mapping[str, Any]) -> Iterator[str]:
    yield path
    for name, field in node.get("properties", {}).items():
        yield from _walk(f"{path}.{name}", field)
    if "items" in node:
        yield from _walk(f"{path}[]", node["items"])
