"""Pages that are made of the code are as it makes them, and leave nothing out."""

from pathlib import Path

import pytest

import reference
from operator_.api.admission import nodes
from reference.source import reasons
from reference.words import CONDITIONS, REASONS
from ringtrain_operator.plan import conditions
from support import promql

TEXTS = reference.texts()
FIELDS, PAGE = (
    next(text for file, text in TEXTS.items() if file.name == name) for name in ("fields.md", "reference.md")
)


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.name)
def test_pages_are_written_anew(file: Path) -> None:
    assert file.read_text() == TEXTS[file], "run: PYTHONPATH=tools python -m reference"


def test_every_reason_is_explained() -> None:
    """And none that the code no longer gives."""
    assert REASONS.keys() == reasons().keys()


def test_reasons_are_found_wherever_they_are_given() -> None:
    found = reasons()
    for reason, file in {
        "InvalidSpec": "plan/plan.py",
        "CreateFailed": "cluster/kubernetes.py",
        "NodeLost": "plan/failures.py",
        "MaxRestartsExceeded": "plan/budget.py",
        "CheckpointDamaged": "checkpoint/reader.py",
        "StoreLost": "coordinator/membership.py",
    }.items():
        assert found[reason].endswith(file), reason


def test_every_condition_is_explained() -> None:
    assert CONDITIONS.keys() == set(conditions._ORDER)


def test_every_metric_is_listed() -> None:
    families = {name for name in promql.known() if ":" not in name and not name.endswith(("_bucket", "_count", "_sum"))}
    assert families
    assert not [name for name in families if f"| `{name}` |" not in PAGE]


def test_every_field_of_the_crd_is_listed() -> None:
    """By the name of its own row, below the heading of its object."""
    listed: set[str] = set()
    section = ""
    for line in FIELDS.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            listed.add(f"{section}.{line.split('`')[1]}")
    assert listed == {
        ".".join(step for step in (*path, name) if step != "items")
        for path, node in nodes()
        if path
        for name in node.get("properties", ())
    }
