from dataclasses import replace
from datetime import timedelta
from typing import Any

from operator_.plan.builders import NOW, job, pod, spec_with, status
from ringtrain_operator.api.status import Failure, TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.creation import creations, due, obstacle
from ringtrain_operator.plan.observed import Observed, Pod

COMPLETE = Observed(service_exists=True, claim_exists=True)
TEMPLATE = {"volume": {"claimTemplate": {"storage": "1Gi"}}}


def names(of: TrainingJobStatus, observed: Observed, own: list[Pod], **fields: Any) -> list[str]:
    spec = spec_with(**fields)
    made = creations(job(spec), parse("gpt", spec), of, observed, due(of, own, NOW))
    return [f"{create.manifest['kind']} {create.manifest['metadata']['name']}" for create in made]


def hindrance(observed: Observed, **fields: Any) -> str:
    spec = spec_with(**fields)
    return obstacle(job(spec), parse("gpt", spec), observed)


def test_a_new_job_gets_everything_at_once() -> None:
    assert names(status(0, 0, 0), Observed(), [], checkpoint=TEMPLATE) == [
        "Service gpt",
        "PersistentVolumeClaim gpt-checkpoints",
        "Pod gpt-0-0",
        "Pod gpt-1-0",
        "Pod gpt-2-0",
    ]


def test_a_job_is_closed_to_others_before_its_pods_are_there() -> None:
    closed = Observed(service_exists=True, agents_from=())
    assert names(status(0), closed, []) == ["NetworkPolicy gpt", "Pod gpt-0-0"]
    assert names(status(0), replace(closed, policy_exists=True), []) == ["Pod gpt-0-0"]


def test_what_exists_is_not_made_again() -> None:
    assert names(status(0, 0, 0), COMPLETE, [pod(0), pod(1), pod(2)], checkpoint=TEMPLATE) == []


def test_a_named_claim_is_never_made() -> None:
    assert names(status(0), Observed(), []) == ["Service gpt", "Pod gpt-0-0"]


def test_a_replica_that_is_lost_again_and_again_has_to_wait() -> None:
    lost = tuple(
        Failure(time=NOW - timedelta(seconds=age), replica=0, pod="p", reason="Evicted", counted=False)
        for age in (4, 3, 2, 1)
    )
    assert names(status(5, 0, failures=lost), COMPLETE, [pod(1)]) == []


def test_a_missing_claim_stands_in_the_way() -> None:
    text = hindrance(Observed(service_exists=True))
    assert "waiting for PersistentVolumeClaim disk" in text
    assert "namespace team" in text


def test_a_claim_of_the_jobs_own_does_not() -> None:
    assert hindrance(Observed(), checkpoint=TEMPLATE) == ""
    assert hindrance(COMPLETE) == ""


def test_pods_of_an_earlier_job_stand_in_the_way() -> None:
    assert "gpt-0-3" in hindrance(Observed(claim_exists=True, pods=(pod(0, 3, foreign=True),)))
