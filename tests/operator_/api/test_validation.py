import re
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_.api.spec_table import BAD, GOOD, Bad, Good, container, model, spec
from ringtrain_operator.api.validation import InvalidSpec, parse

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1Gi", "a", "cuda"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def errors(name: str, given: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidSpec) as caught:
        parse(name, given)
    return caught.value.errors


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.title)
def test_good_spec_is_accepted(case: Good) -> None:
    parse(case.name, case.spec)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.title)
def test_bad_spec_is_refused_in_one_plain_sentence_about_the_field(case: Bad) -> None:
    (error,) = errors(case.name, case.spec)
    path, _, words = error.partition(": ")
    assert path == case.path
    assert case.words in words
    assert not re.search(r"pydantic|https?://|Input should|Value error|valid (string|integer)|[A-Z]\w+Config", error)
    assert "\n" not in error


def test_all_errors_are_told_at_once() -> None:
    given = model(size="huge") | {
        "replicas": 0,
        "args": ["x"],
        "shmSize": "big",
        "resources": {"limits": {"gpu": 1}},
        "template": {"spec": {"hostNetwork": True, "volumes": [{"name": "shm"}, {"name": 1}]}},
    }
    assert sorted(error.partition(": ")[0] for error in errors("7", given)) == [
        "metadata.name",
        "spec.replicas",
        "spec.resources.limits.gpu",
        "spec.shmSize",
        "spec.template.spec.hostNetwork",
        "spec.template.spec.volumes[0].name",
        "spec.template.spec.volumes[1].name",
        "spec.trainer.model.size",
    ]


def test_mounts_are_not_blamed_on_a_volume_that_cannot_be_read() -> None:
    mount = {"name": "data", "mountPath": "/data"}
    given = {"volumes": [{"name": "data", "nsf": {}}], "containers": [{"name": "trainer", "volumeMounts": [mount]}]}
    (error,) = errors("job", spec(template={"spec": given}))
    assert error.startswith("spec.template.spec.volumes[0].nsf: unknown field")


def test_rule_waits_for_the_fields_it_reads() -> None:
    assert errors("job", spec(trainer={"rounds": 0})) == (
        "spec.trainer.rounds: must be at least 1, not 0",
        "spec.trainer.data: is required",
    )


def test_whole_numbers_are_quantities() -> None:
    assert parse("job", spec(resources={"limits": {"cpu": 2}})).resources.limits == {"cpu": "2"}


def test_null_counts_as_absent() -> None:
    parsed = parse("job", spec() | {"command": None, "checkpoint": None, "template": {"metadata": None}})
    assert parsed == parse("job", spec())


def test_null_in_the_pod_template_is_kept_to_take_back_a_default() -> None:
    given = {"securityContext": {"runAsUser": None}}
    assert parse("job", spec(template={"spec": given})).template.spec == given


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["image"], "spec: must be a mapping of fields to values"),
        (spec(image=date(2024, 1, 1)), "spec.image: is a date: write it in quotes"),
        (spec(shmSize=float("nan")), "spec.shmSize: is nan: it must be a finite number"),
        (spec(replicas=10**30), "spec.replicas: is too large a number"),
        (spec(template={"metadata": {"labels": {1: "a"}}}), "spec.template.metadata.labels: has the key 1"),
        (container(env=[{"name": "\ud800"}]), "spec.template.spec.containers[0].env[0].name: is not valid Unicode"),
    ],
)
def test_what_is_no_json_is_refused(given: Any, error: str) -> None:
    (found,) = errors("job", given)
    assert found.startswith(error)


def test_endless_nesting_is_refused() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    (error,) = errors("job", spec(template={"spec": {"nodeSelector": deep}}))
    assert "levels deep" in error


@settings(deadline=None)
@given(st.text(max_size=70), JSON)
def test_any_input_is_refused_in_words(name: str, given: Any) -> None:
    assert all(error.startswith(("metadata.name: ", "spec")) for error in errors(name, given))


@settings(deadline=None)
@given(st.data(), st.sampled_from(GOOD), JSON)
def test_any_change_of_a_good_spec_is_parsed_or_refused(data: st.DataObject, case: Good, value: Any) -> None:
    with suppress(InvalidSpec):
        parse(case.name, changed(data, case.spec, value))


def changed(data: st.DataObject, node: Any, value: Any) -> Any:
    """`node` with something in it replaced by `value`."""
    if isinstance(node, dict) and node:
        key = data.draw(st.sampled_from(sorted(node)) | st.text(max_size=8))
        return node | {key: changed(data, node[key], value) if key in node else value}
    if isinstance(node, list) and node:
        index = data.draw(st.integers(0, len(node) - 1))
        return [*node[:index], changed(data, node[index], value), *node[index + 1 :]]
    return value
