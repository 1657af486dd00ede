"""What Kubernetes asks of an object's metadata beside its name: a file that is run here must also be one for a cluster.

The operator needs none of it: the API server stores no object that breaks these rules.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ringtrain_operator.api import names
from ringtrain_operator.api.plain_words import PATTERNS
from ringtrain_operator.api.problem import Location, Problem, show

_ROOT = ("metadata",)
_MAXIMUM_LABEL = 63
_MAXIMUM_ANNOTATIONS = 1 << 18
"""Bytes of all keys and values."""


def metadata_problems(metadata: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with namespace, labels and annotations."""
    namespace = metadata.get("namespace", "default")
    if not isinstance(namespace, str) or not re.fullmatch(names.NAMESPACE, namespace):
        yield Problem(
            (*_ROOT, "namespace"),
            "must be at most 63 lower-case letters, digits and dashes, and begin and end with a letter or digit, not "
            f"{show(namespace)}",
        )
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    yield from _texts((*_ROOT, "labels"), labels, is_label=True)
    yield from _texts((*_ROOT, "annotations"), annotations, is_label=False)
    if isinstance(annotations, Mapping):
        size = sum(len(str(text).encode(errors="replace")) for entry in annotations.items() for text in entry)
        if size > _MAXIMUM_ANNOTATIONS:
            yield Problem((*_ROOT, "annotations"), f"have {size} bytes, at most {_MAXIMUM_ANNOTATIONS} fit")


def _texts(location: Location, entries: Any, *, is_label: bool) -> Iterator[Problem]:
    if entries is None:
        return
    if not isinstance(entries, Mapping):
        yield Problem(location, f"must be a mapping of names to strings, not {show(entries)}")
        return
    for key, value in entries.items():
        if not isinstance(key, str) or not names.is_qualified_name(key):
            yield Problem((*location, str(key)), names.NOT_A_KEY)
        if not isinstance(value, str):
            yield Problem((*location, str(key)), f"must be a string, not {show(value)}: write it in quotes")
        elif is_label and len(value) > _MAXIMUM_LABEL:
            yield Problem((*location, str(key)), f"has {len(value)} characters, at most {_MAXIMUM_LABEL} fit")
        elif is_label and not re.fullmatch(names.LABEL_VALUE, value):
            yield Problem((*location, str(key)), f"{PATTERNS[names.LABEL_VALUE]}, not {show(value)}")
