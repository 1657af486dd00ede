"""The spec is edited while the job has pods."""

from dataclasses import replace

from operator_.plan.builders import NODES, NOW, ended, job, pod, spec_with
from ringtrain_operator.plan.observed import Observed, Pod, PodPhase
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import Plan

ALL = (pod(0), pod(1), pod(2))


def observed(*pods: Pod) -> Observed:
    return Observed(pods=pods, nodes=NODES, service_exists=True, claim_exists=True)


def created(of: Plan) -> list[str]:
    return [create.manifest["metadata"]["name"] for create in of.creates]


def reasons(of: Plan) -> list[str]:
    return [event.reason for event in of.events]


def test_replacements_are_never_told_otherwise_than_their_peers() -> None:
    started = plan(job(), observed(*ALL), NOW).status
    changed = spec_with(trainer={"rounds": 99, "data": {"paths": ["/data/*.txt"]}})
    made = plan(job(changed, started), observed(pod(0), ended(1, code=82), pod(2)), NOW)
    assert (made.creates, made.deletes, made.status.members) == ((), (), started.members)
    assert "spec.trainer.rounds: cannot change from 60 to 99" in made.status.message
    assert made.status.total_rounds == 60
    assert created(plan(job(status=made.status), observed(pod(0), ended(1, code=82), pod(2)), NOW)) == ["gpt-1-1"]


def test_a_change_says_whom_it_reaches() -> None:
    started = plan(job(), observed(*ALL), NOW).status
    changed = job(spec_with(image="trainer:2"), started, generation=2)
    made = plan(changed, observed(*ALL), NOW)
    assert (reasons(made), made.deletes, made.creates) == (["SpecChanged"], (), ())
    assert reasons(plan(replace(changed, status=made.status), observed(*ALL), NOW)) == []


def test_a_correction_reaches_pods_that_do_not_run_yet() -> None:
    stuck = [pod(i, phase=PodPhase.PENDING, waiting_reason="ErrImagePull", spec_generation=1) for i in range(3)]
    before = plan(job(), observed(*stuck), NOW).status
    corrected = job(spec_with(image="trainer:2"), before, generation=2)
    made = plan(corrected, observed(*stuck), NOW)
    assert [delete.name for delete in made.deletes] == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert (made.creates, made.status.counted_restarts) == ((), 0)
    assert created(plan(replace(corrected, status=made.status), observed(), NOW)) == ["gpt-0-1", "gpt-1-1", "gpt-2-1"]
