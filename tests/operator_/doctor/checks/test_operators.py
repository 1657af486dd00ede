from dataclasses import replace

import pytest

from operator_.doctor.builders import OPERATOR, facts, job
from ringtrain_operator.doctor.checks.operators import check
from ringtrain_operator.doctor.facts import Operator, Unknown
from ringtrain_operator.doctor.finding import Level

DOWN = replace(OPERATOR, ready=0)


@pytest.mark.parametrize(
    ("operator", "words", "fix"),
    [
        (replace(OPERATOR, wanted=0, ready=0), "scaled to 0", "kubectl scale deployment ringtrain"),
        (DOWN, "no pod of it is ready", "kubectl describe pods -n ringtrain-system"),
        (replace(DOWN, trouble=("Unschedulable: 0/3 nodes",)), "0/3 nodes", "kubectl describe pods"),
        (replace(DOWN, trouble=("CrashLoopBackOff: back-off: BadSettings",)), "BadSettings", "kubectl logs"),
        (replace(DOWN, trouble=("ErrImagePull: not found",)), "image ringtrain-operator:1 cannot be pulled", "--set"),
        (replace(OPERATOR, watched=("other",)), "nobody watches namespace team", "watchNamespaces"),
    ],
)
def test_operators_that_do_not_act(operator: Operator, words: str, fix: str) -> None:
    finding = check(facts(operators=(operator,)))[-1]
    assert finding.level is Level.FAIL
    assert words in finding.text
    assert fix in finding.fix


def test_an_operator_for_the_namespace() -> None:
    (finding,) = check(facts(operators=(replace(OPERATOR, watched=("other", "team")),)))
    assert finding.level is Level.OK


def test_two_for_the_same_namespace() -> None:
    here = replace(OPERATOR, namespace="team-system", watched=("team",))
    finding = check(facts(operators=(OPERATOR, here)))[-1]
    assert finding.level is Level.FAIL
    assert "ringtrain-system/ringtrain and team-system/ringtrain act on the same jobs" in finding.text
    for other in (replace(here, watched=("other",)), replace(here, wanted=0, ready=0)):
        assert all("same jobs" not in each.text for each in check(facts(operators=(OPERATOR, other))))


def test_none() -> None:
    (finding,) = check(facts(operators=()))
    assert finding.level is Level.FAIL
    assert "no operator is installed" in finding.text


def test_one_that_cannot_be_seen() -> None:
    (finding,) = check(facts(operators=Unknown("may not list deployments")))
    assert finding.level is Level.UNKNOWN


@pytest.mark.parametrize("operators", [(OPERATOR,), (), Unknown("may not list deployments")])
def test_jobs_that_nobody_looks_at(operators: tuple[Operator, ...] | Unknown) -> None:
    finding = check(facts(operators=operators, jobs=(job("old", status={}), job("seen"))))[-1]
    assert finding.level is Level.FAIL
    assert "nobody acts on old:" in finding.text


def test_a_new_job_may_still_be_looked_at() -> None:
    new = job(created="2026-01-01T11:59:30Z", status={})
    assert [finding.level for finding in check(facts(jobs=(new,)))] == [Level.OK]
