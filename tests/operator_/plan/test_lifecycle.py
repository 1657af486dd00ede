"""Jobs that are suspended, resumed, scaled, out of time, or another controller's."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from operator_.plan.builders import NODES, NOW, ended, job, pod, spec_with, status
from ringtrain.contract.report import CheckpointRecord, JobReport, TerminationMessage
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.acceptance import accept
from ringtrain_operator.plan.conditions import FAILED, SUSPENDED, find
from ringtrain_operator.plan.fixed import started_with
from ringtrain_operator.plan.observed import Observed, Pod
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import DeletePod, Plan

ALL = (pod(0, ready=True), pod(1, ready=True), pod(2, ready=True))
GOING = tuple(replace(each, deleting=True) for each in ALL)
SUSPEND = spec_with(suspend=True)
FOUR = spec_with(replicas=4)
RUNS = status(0, 0, 0, started_with=started_with(accept(job())), active_since=NOW, start_time=NOW)


def observed(*pods: Pod, **fields: Any) -> Observed:
    given: dict[str, Any] = {"pods": pods, "nodes": NODES, "service_exists": True, "claim_exists": True}
    return Observed(**(given | fields))


def next_pass(spec: Any, before: TrainingJobStatus, *pods: Pod, seconds: float = 0) -> Plan:
    return plan(job(spec, before), observed(*pods), NOW + timedelta(seconds=seconds))


def created(of: Plan) -> list[str]:
    return [create.manifest["metadata"]["name"] for create in of.creates]


def deleted(of: Plan) -> list[str]:
    return [delete.name for delete in of.deletes]


def reasons(of: Plan) -> list[str]:
    return [event.reason for event in of.events]


def test_a_suspended_job_ends_its_pods_within_their_grace() -> None:
    first = next_pass(SUSPEND, RUNS, *ALL)
    assert (first.status.phase, first.status.members, first.status.epoch) == (JobPhase.SUSPENDING, (), 1)
    assert deleted(first) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert not any(isinstance(delete, DeletePod) and delete.force for delete in first.deletes)
    assert (created(first), reasons(first)) == ([], ["Suspending"])
    second = next_pass(SUSPEND, first.status, *GOING)
    assert (second.status, second.deletes, second.events) == (first.status, (), ())
    assert second.requeue_after is not None
    last = next_pass(SUSPEND, first.status, ended(1))
    assert (last.status.phase, reasons(last), last.requeue_after) == (JobPhase.SUSPENDED, ["Suspended"], None)
    assert (last.status.restarts, last.status.failures) == (0, ())


def test_what_a_suspension_saved_is_in_the_status() -> None:
    record = CheckpointRecord(round=23, time=NOW)
    said = TerminationMessage(exit_code=80, reason="Preempted", message="", last_checkpoint=record)
    first = next_pass(SUSPEND, RUNS, *ALL).status
    going = (ended(0, code=80, deleting=True, message=said.to_json()), *GOING[1:])
    second = next_pass(SUSPEND, first, *going).status
    assert (second.phase, second.last_checkpoint) == (JobPhase.SUSPENDING, record)
    assert next_pass(SUSPEND, second).status.last_checkpoint == record


def test_pods_that_end_by_a_suspension_have_not_failed() -> None:
    first = next_pass(SUSPEND, RUNS, *ALL)
    shown = (ended(0, code=80, deleting=True), ended(1, code=137), ended(2, code=78))
    assert next_pass(SUSPEND, first.status, *shown).status.phase is JobPhase.SUSPENDED


def test_an_operator_that_ended_before_its_deletes_makes_them_later() -> None:
    first = next_pass(SUSPEND, RUNS, *ALL)
    assert deleted(next_pass(SUSPEND, first.status, *ALL)) == deleted(first)
    assert deleted(next_pass(spec_with(), first.status, *ALL)) == deleted(first)
    assert deleted(next_pass(spec_with(replicas=0), first.status, *ALL)) == deleted(first)


def test_a_job_is_resumed_in_a_new_epoch_once_all_old_pods_have_ended() -> None:
    suspending = next_pass(SUSPEND, RUNS, *ALL).status
    first = next_pass(spec_with(), suspending, GOING[2], ended(0))
    assert (first.status.phase, first.status.members, created(first)) == (JobPhase.PENDING, (), [])
    assert "replica 2 must save and end first" in first.status.message
    assert reasons(first) == ["Resumed"]
    second = next_pass(spec_with(), first.status)
    assert created(second) == ["gpt-0-1", "gpt-1-1", "gpt-2-1"]
    assert (second.status.phase, second.status.start_time, reasons(second)) == (JobPhase.PENDING, NOW, ["Started"])
    condition = find(second.status, SUSPENDED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Resumed")


def test_whether_pods_are_left_is_seen_after_the_write_that_disbands_them() -> None:
    """What is seen before may lack pods that were just created."""
    first = next_pass(SUSPEND, RUNS)
    assert (first.status.phase, first.requeue_after) == (JobPhase.SUSPENDING, 0)
    assert deleted(next_pass(SUSPEND, first.status, *ALL)) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    scaled = next_pass(FOUR, RUNS)
    assert (scaled.status.members, created(scaled), scaled.requeue_after) == ((), [], 0)


def test_a_job_that_is_created_suspended_makes_nothing() -> None:
    made = next_pass(SUSPEND, TrainingJobStatus())
    assert (made.status.phase, made.status.start_time, made.creates) == (JobPhase.SUSPENDED, None, ())
    assert created(next_pass(spec_with(), made.status)) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]


def test_a_suspended_job_whose_status_was_lost_ends_the_pods_that_it_finds() -> None:
    made = next_pass(SUSPEND, TrainingJobStatus(epoch=2), pod(0, 2), pod(1, 1))
    assert (made.status.epoch, made.status.phase) == (3, JobPhase.SUSPENDING)
    assert deleted(made) == ["gpt-0-2", "gpt-1-1"]


def test_a_job_that_is_done_succeeds_rather_than_be_suspended() -> None:
    assert next_pass(SUSPEND, RUNS, ended(0, code=0), pod(1), pod(2)).status.phase is JobPhase.SUCCEEDED
    over = plan(job(SUSPEND, RUNS), observed(*ALL, report=JobReport(finished=True)), NOW)
    assert over.status.phase is JobPhase.SUCCEEDED


def test_a_suspended_job_may_be_changed() -> None:
    suspended = next_pass(SUSPEND, next_pass(SUSPEND, RUNS, *ALL).status).status
    longer = spec_with(trainer={"rounds": 90, "data": {"paths": ["/data/*.txt"]}}, replicas=1)
    made = next_pass(longer, suspended)
    assert (created(made), made.status.total_rounds) == (["gpt-0-1"], 90)
    assert started_with(accept(job(longer))) == made.status.started_with


def test_another_size_is_a_new_start_of_all_pods() -> None:
    first = next_pass(FOUR, RUNS, *ALL)
    assert (first.status.phase, first.status.members, first.status.epoch) == (JobPhase.RESTARTING, (), 1)
    assert (deleted(first), created(first), reasons(first)) == (["gpt-0-0", "gpt-1-0", "gpt-2-0"], [], ["Scaled"])
    second = next_pass(FOUR, first.status, GOING[0])
    assert (second.status.phase, created(second)) == (JobPhase.RESTARTING, [])
    third = next_pass(FOUR, second.status, ended(2))
    assert created(third) == ["gpt-0-1", "gpt-1-1", "gpt-2-1", "gpt-3-1"]
    assert (third.status.replicas, third.status.restarts, third.status.phase) == (4, 0, JobPhase.RESTARTING)


def test_a_size_that_is_set_back_meanwhile_is_the_size() -> None:
    first = next_pass(FOUR, RUNS, *ALL)
    assert len(next_pass(spec_with(), first.status).status.members) == 3


@pytest.mark.parametrize("shown", [ALL, ALL[:2]])
def test_a_job_that_was_active_for_too_long_fails(shown: tuple[Pod, ...]) -> None:
    spec = spec_with(activeDeadlineSeconds=100)
    before = next_pass(spec, RUNS, *ALL, seconds=98)
    assert (before.status.phase, before.requeue_after) == (JobPhase.RUNNING, 2)
    made = next_pass(spec, before.status, *shown, seconds=100)
    assert (made.status.phase, reasons(made)[-1]) == (JobPhase.FAILED, "DeadlineExceeded")
    assert deleted(made) == [each.name for each in shown]
    condition = find(made.status, FAILED)
    assert condition is not None
    assert condition.reason == "DeadlineExceeded"


def test_a_job_that_cannot_begin_in_time_fails() -> None:
    spec = spec_with(pendingDeadlineSeconds=60)
    absent = {"claim_exists": False, "service_exists": False}
    first = plan(job(spec), observed(**absent), NOW)
    assert first.status.pending_since == NOW
    last = plan(job(spec, first.status), observed(**absent), NOW + timedelta(seconds=60))
    assert (last.status.phase, reasons(last)) == (JobPhase.FAILED, ["PendingDeadlineExceeded"])
    assert "PersistentVolumeClaim disk" in last.status.message


def test_a_replacement_that_finds_no_place_in_time_fails_the_job() -> None:
    spec = spec_with(pendingDeadlineSeconds=60)
    first = next_pass(spec, RUNS, pod(0), ended(1), pod(2))
    assert first.status.pending_since == NOW
    assert next_pass(spec, first.status, *ALL[::2], pod(1, 1), seconds=59).status.pending_since is None
    last = next_pass(spec, first.status, pod(0), pod(2), seconds=60)
    assert last.status.phase is JobPhase.FAILED
    assert deleted(last) == ["gpt-0-0", "gpt-2-0"]


def test_a_spec_that_is_corrected_gets_its_time_to_begin() -> None:
    spec = spec_with(pendingDeadlineSeconds=60)
    waiting = plan(job(spec), observed(claim_exists=False), NOW).status
    invalid = next_pass(spec_with(replicas=0), waiting, seconds=30)
    assert (invalid.status.phase, invalid.status.pending_since) == (JobPhase.INVALID, None)
    assert next_pass(spec, invalid.status, seconds=90).status.phase is JobPhase.PENDING


def test_a_job_is_deleted_some_time_after_its_end() -> None:
    spec = spec_with(ttlSecondsAfterFinished=10)
    done = next_pass(spec, RUNS, ended(0, code=0))
    assert (done.status.phase, done.delete_job, done.requeue_after) == (JobPhase.SUCCEEDED, False, 10)
    assert next_pass(spec, done.status, ended(0, code=0), seconds=10).delete_job


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    theirs = spec_with(managedBy="kueue.x-k8s.io/multikueue", replicas=0)
    for before in (TrainingJobStatus(), RUNS):
        assert next_pass(theirs, before, *ALL) == Plan(status=before)


def test_rules_of_the_job_decide() -> None:
    rules = [
        {"action": "FailJob", "exitCodes": [3]},
        {"action": "Ignore", "reasons": ["Hang"]},
        {"action": "RestartUncounted", "exitCodes": [70]},
    ]
    spec = spec_with(faultTolerance={"maxRestarts": 0, "rules": rules})
    made = next_pass(spec, RUNS, ended(0, code=82), ended(1, code=70), pod(2))
    assert (made.status.restarts, made.status.counted_restarts, created(made)) == (1, 0, ["gpt-0-1", "gpt-1-1"])
    assert [(event.type, event.reason) for event in made.events] == [("Normal", "Hang"), ("Warning", "UserError")]
    failed = next_pass(spec, RUNS, pod(0), ended(1, code=3), pod(2))
    assert (failed.status.phase, reasons(failed)) == (JobPhase.FAILED, ["Crashed"])
    assert "a rule of faultTolerance.rules" in failed.status.message


def test_a_job_keeps_the_defaults_that_it_began_with_whatever_becomes_of_them() -> None:
    before, after = {"shmSize": "1Gi", "communication": {"rate": 6}}, {"shmSize": "9Gi", "communication": {"rate": 9}}
    new = plan(job(defaults=before), Observed(claim_exists=True), NOW)
    assert json.loads(new.status.inherited) == before
    pods = made(new)
    # Every pod is made anew, by an operator with other defaults.
    again = plan(job(status=new.status, defaults=after), Observed(claim_exists=True, service_exists=True), NOW)
    assert again.status.inherited == new.status.inherited
    assert made(again) == pods
    suspended = plan(job(spec_with(suspend=True), new.status, defaults=after), Observed(claim_exists=True), NOW).status
    resumed = plan(job(status=suspended, defaults=after), Observed(claim_exists=True), NOW)
    assert resumed.status.inherited == new.status.inherited
    assert {volume["emptyDir"].get("sizeLimit") for pod in made(resumed) for volume in pod["spec"]["volumes"][:1]} == {
        "1Gi"
    }


def made(done: Plan) -> list[Mapping[str, Any]]:
    """The manifests of pods."""
    found = [create.manifest for create in done.creates if create.manifest["kind"] == "Pod"]
    assert found
    return found
