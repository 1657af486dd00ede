"""The CRD's schema and CEL rules against the operator's own checks, on the same good and bad specs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_.api.admission import broken_rules, is_transition, job, rules, schema_errors
from operator_.api.spec_table import BAD, GOOD, Bad, Good, claim, spec
from operator_.api.test_validation import JSON, changed
from ringtrain_operator.api.plain_json import plain_json
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan.defaults import JobDefaults, with_defaults


def caught(name: str, spec: object) -> str:
    """Where a spec that the operator refuses is caught."""
    given = job(name, spec)
    if schema_errors(given):
        return "schema"
    return "cel" if broken_rules(given) else "operator"


def test_the_table_is_wide_enough() -> None:
    assert len(GOOD) >= 20
    assert len(BAD) >= 25


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.title)
def test_good_spec_passes_schema_and_rules(case: Good) -> None:
    given = job(case.name, case.spec)
    assert schema_errors(given) == []
    assert broken_rules(given) == set()


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.title)
def test_bad_spec_is_caught_where_the_table_says(case: Bad) -> None:
    assert caught(case.name, case.spec) == case.caught


STATES = [rule for rule in rules() if not is_transition(rule[1])]


@pytest.mark.parametrize(("path", "expression"), STATES, ids=[" ".join(rule)[:80] for _, *rule in STATES])
def test_every_rule_refuses_some_bad_spec_by_itself(path: tuple[str, ...], expression: str) -> None:
    assert any(broken_rules(job(case.name, case.spec)) == {(path, expression)} for case in BAD if case.caught == "cel")


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        (None, "ringtrain.io/operator", False),
        (None, "kueue.x-k8s.io/multikueue", True),
        ("kueue.x-k8s.io/multikueue", None, True),
        ("kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/multikueue", False),
    ],
)
def test_who_manages_a_job_is_decided_once(before: str | None, after: str | None, refused: bool) -> None:
    (rule,) = [rule for rule in rules() if is_transition(rule[1])]
    old, new = job("job", spec(managedBy=before)), job("job", spec(managedBy=after))
    assert broken_rules(new, old) == ({rule} if refused else set())


@settings(deadline=None)
@given(st.data(), st.sampled_from(GOOD), JSON)
def test_what_the_operator_accepts_the_api_server_accepts(data: st.DataObject, case: Good, value: object) -> None:
    changed_spec = changed(data, case.spec, value)
    try:
        parse(case.name, changed_spec)
    except InvalidSpec:
        return
    given = job(case.name, plain_json(changed_spec, ("spec",), ("spec", "template", "spec")))
    assert schema_errors(given) == []
    assert broken_rules(given) == set()


INHERITED = (
    ({"image": "trainer:1"}, spec(image=None)),
    ({"communication": {"codec": "int4"}}, spec(communication={"block": 32, "rotate": True})),
    ({"communication": {"codec": "int4"}}, spec(communication={"codec": "zfp", "rate": 4})),
    ({"communication": {"codec": "bf16"}}, spec(communication={"codec": "zfp", "errorFeedback": "plain"})),
    ({"scheduling": {"gang": "Kueue", "queueName": "a"}}, spec(scheduling={"gang": "Kueue"})),
    ({"scheduling": {"gang": "Kueue", "queueName": "a"}}, spec(scheduling={"queueName": "b"})),
    ({"scheduling": {"topologyKey": "rack"}}, spec(scheduling={"topologyPolicy": "Required"})),
    ({"scheduling": {"gang": "Volcano"}}, spec(scheduling={"gang": "None"}, spareReplicas=1)),
    ({"gpuResource": "example.com/gpu"}, spec(resources={"limits": {"example.com/gpu": 1}})),
    (
        {"checkpoint": {"volume": {"claimTemplate": {"accessModes": ["ReadWriteOnce"]}}}},
        claim(3, accessModes=["ReadWriteMany"]),
    ),
)
"""Defaults, and a job that is right with them."""


@pytest.mark.parametrize(("defaults", "own"), INHERITED, ids=lambda given: str(given)[:60])
def test_what_is_right_with_defaults_is_not_refused_without(defaults: dict[str, Any], own: dict[str, Any]) -> None:
    parse("job", with_defaults(own, JobDefaults.checked({"cluster": defaults}).of("any")))
    assert (schema_errors(job("job", own)), broken_rules(job("job", own))) == ([], set())


@settings(deadline=None)
@given(st.data(), st.sampled_from(GOOD), st.sampled_from([defaults for defaults, _ in INHERITED]), JSON)
def test_what_the_operator_accepts_with_defaults_the_api_server_accepts(
    data: st.DataObject, case: Good, defaults: dict[str, Any], value: object
) -> None:
    own = changed(data, case.spec, value)
    try:
        parse(case.name, with_defaults(own, defaults))
    except InvalidSpec:
        return
    given = job(case.name, plain_json(own, ("spec",), ("spec", "template", "spec")))
    assert (schema_errors(given), broken_rules(given)) == ([], set())
