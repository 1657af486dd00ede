"""The chart's README: its values, from the comments in values.yaml."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

_HEAD = """\
# The Ringtrain chart

Installs the operator, the TrainingJob CRD and the operator's rights; by choice PodMonitors, alert rules and Grafana
dashboards ([monitoring](../../docs/monitoring.md)).

    helm upgrade --install ringtrain charts/ringtrain --namespace ringtrain-system --create-namespace

`values.schema.json` refuses what cannot be meant. This page is written by `PYTHONPATH=tools python -m reference`.

| value | default | meaning |
|---|---|---|
"""
_MARK = "# -- "


def text(source: str) -> str:
    """`source` is values.yaml. Raises KeyError for a value that no comment describes."""
    comments = dict(_comments(source))
    rows = (
        f"| `{path}` | `{json.dumps(value)}` | {comments[path].replace('|', '&#124;')} |"
        for path, value in _leaves(yaml.safe_load(source), comments)
    )
    return _HEAD + "\n".join(rows) + "\n"


def _comments(source: str) -> Iterator[tuple[str, str]]:
    """(path, comment) of each value under a comment; indents are of two spaces."""
    path: list[str] = []
    said = ""
    for line in source.splitlines():
        bare = line.strip()
        if bare.startswith(_MARK):
            said = bare.removeprefix(_MARK)
        elif bare.startswith("# ") and said:
            said += " " + bare.removeprefix("# ")
        elif ":" in bare and not bare.startswith("#"):
            path = [*path[: (len(line) - len(line.lstrip())) // 2], bare.partition(":")[0]]
            if said:
                yield ".".join(path), said
            said = ""


def _leaves(values: dict[str, Any], described: dict[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """A mapping that is described itself is one value."""
    for name, value in values.items():
        path = prefix + name
        if isinstance(value, dict) and path not in described:
            yield from _leaves(value, described, path + ".")
        else:
            yield path, value
