import pytest

from operator_.api.admission import SCHEMA, defaulted, job, nodes
from operator_.api.spec_table import GOOD, Good
from ringtrain_operator.api.defaultable import DEFAULTABLE, Fields, not_defaultable
from ringtrain_operator.api.schema import structural_schema
from ringtrain_operator.api.spec import TrainingJobSpec

SPEC = SCHEMA["properties"]["spec"]
WHOLE = structural_schema(TrainingJobSpec, defaults=True)


def paths(fields: Fields = DEFAULTABLE, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [((*path, name), inner) for name, inner in fields.items()]
    return [each for at, inner in found for each in ([at] if inner is True else paths(inner, at))]


def is_defaultable(path: tuple[str, ...]) -> bool:
    return any(path[: len(each)] == each for each in paths())


def test_each_is_a_field() -> None:
    known = {path for path, _ in nodes(SPEC)}
    assert set(paths()) <= known


def test_what_administrators_may_set_is_neither_stored_by_default_nor_demanded() -> None:
    for path, node in nodes(SPEC):
        if is_defaultable(path):
            assert "default" not in node, path
        for name in node.get("required", ()):
            assert (*path, name) not in paths(), path


def test_everything_else_is_as_the_model_says() -> None:
    whole = {path: node for path, node in nodes(WHOLE) if not is_defaultable(path)}
    stored = {path: node for path, node in nodes(SPEC) if not is_defaultable(path)}
    assert whole.keys() == stored.keys()
    lost = {path for path, node in whole.items() if node.get("default") != stored[path].get("default")}
    # Their fields' defaults filled it.
    assert lost == {("faultTolerance",)}


def test_a_default_that_is_not_stored_is_described() -> None:
    rate = SPEC["properties"]["communication"]["properties"]
    assert rate["codec"]["description"].endswith(" Default: zfp.")
    assert rate["overlap"]["description"].endswith(" Default: true.")
    assert "Default:" not in rate["rate"]["description"]


def said(spec: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not isinstance(spec, dict):
        return {path}
    return {path}.union(*(said(value, (*path, name)) for name, value in spec.items()))


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.title)
def test_what_is_stored_of_them_a_job_has_said(case: Good) -> None:
    stored = defaulted(job(case.name, case.spec))["spec"]
    assert {path for path in said(stored) if is_defaultable(path)} <= said(case.spec)


def test_others_are_named_with_those_that_can_be_set() -> None:
    given = {"image": "a", "replicas": 2, "checkpoint": {"keep": 1, "volume": {"subPath": "a"}}}
    assert list(map(str, not_defaultable(given, ("spec",)))) == [
        f"spec.replicas: can have no default; these can: {', '.join(DEFAULTABLE)}",
        "spec.checkpoint.volume.subPath: can have no default; these can: claimTemplate",
    ]
