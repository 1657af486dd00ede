"""How a partial PodSpec of the user's is merged into the job's own, as a strategic merge patch would be."""

from collections.abc import Mapping
from typing import Any

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
"""Of lists of named things, the field that names them."""


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Objects are merged field by field, lists of named things by their name; other lists and values are replaced.

    A field that is null in `patch` is removed.
    """
    merged = dict(base)
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, Mapping):
            merged[field] = merge(_mapping(merged.get(field)), value)
        elif isinstance(value, list) and field in MERGE_KEYS:
            merged[field] = _merge_named(merged.get(field) or [], value, MERGE_KEYS[field])
        else:
            merged[field] = value
    return merged


def _merge_named(base: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Entries of `base` keep their places; new ones follow in their own order."""
    merged = {entry[key]: entry for entry in base}
    for entry in patch:
        merged[entry[key]] = merge(merged.get(entry[key], {}), entry)
    return list(merged.values())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
