"""A job whose namespace is being deleted: what goes is neither a failure nor replaced."""

from dataclasses import replace

import pytest

from operator_.plan.builders import NODES, NOW, ended, job, pod, spec_with, status
from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.plan.observed import Observed, Pod
from ringtrain_operator.plan.plan import plan

ENDING = Observed(nodes=NODES, namespace_ending=True)


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (pod(0, deleting=True), pod(1, deleting=True), pod(2)),
        (ended(0, code=137), pod(1), pod(2)),
        (ended(0, code=78), ended(1, code=80)),
    ],
)
def test_nothing_is_counted_created_or_given_up(pods: tuple[Pod, ...]) -> None:
    before = status(0, 1, 0)
    made = plan(job(status=before), replace(ENDING, pods=pods), NOW)
    assert (made.status.epoch, made.status.restarts, made.status.failures) == (1, 0, ())
    assert made.status.members == before.members
    assert (made.creates, made.deletes, made.events) == ((), (), ())
    assert "namespace team is being deleted" in made.status.message
    assert made.status.phase is JobPhase.RESTARTING
    # Whatever goes comes by the watches; the job itself goes soon.
    assert made.requeue_after is None
    assert plan(job(status=made.status), replace(ENDING, pods=pods), NOW).status == made.status


def test_a_job_without_pods_gets_none() -> None:
    made = plan(job(), ENDING, NOW)
    assert (made.creates, made.status.members, made.status.phase) == ((), (), JobPhase.PENDING)
    assert "namespace team is being deleted" in made.status.message


def test_nor_is_a_wrong_spec_looked_at() -> None:
    made = plan(job(spec_with(replicas=0), status(0, 0, 0)), replace(ENDING, pods=(pod(0),)), NOW)
    assert (made.events, made.creates) == ((), ())
    assert "namespace team is being deleted" in made.status.message


def test_a_job_that_is_over_keeps_its_word() -> None:
    over = status(0, phase=JobPhase.SUCCEEDED, message="trained 60 rounds")
    assert plan(job(status=over), ENDING, NOW).status == over
