from typing import Any

import pytest

from operator_.plan.builders import NOW, ended, members, pod, status
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport
from ringtrain_operator.api.status import Failure, JobPhase, Member, TrainingJobStatus
from ringtrain_operator.plan.observed import Pod, PodPhase
from ringtrain_operator.plan.phase import message_of, phase_of

ALL = [pod(0), pod(1)]


def fresh(**fields: Any) -> TrainingJobStatus:
    return status(0, 0, **({"phase": JobPhase.PENDING, "generation": ""} | fields))


def report(generation: str | None, phase: Phase = Phase.TRAINING) -> JobReport:
    return JobReport(generation=generation, phase=phase)


def test_pending_until_all_pods_run() -> None:
    assert phase_of(fresh(), [pod(0), pod(1, phase=PodPhase.PENDING)], None) is JobPhase.PENDING
    assert phase_of(fresh(), [], None) is JobPhase.PENDING


def test_starting_until_rounds_are_trained() -> None:
    assert phase_of(fresh(), ALL, None) is JobPhase.STARTING
    assert phase_of(fresh(), ALL, report(None, Phase.WAITING)) is JobPhase.STARTING
    assert phase_of(fresh(), ALL, report("0.0", Phase.RESTORING)) is JobPhase.STARTING


@pytest.mark.parametrize("phase", [Phase.COMPILING, Phase.TRAINING, Phase.CHECKPOINTING, Phase.DONE])
def test_running_while_rounds_are_trained(phase: Phase) -> None:
    assert phase_of(fresh(), ALL, report("0.0", phase)) is JobPhase.RUNNING


def test_restarting_while_a_replica_is_replaced() -> None:
    after = status(0, 1, restarts=1, generation="0.0")
    assert phase_of(after, [pod(0), ended(1)], report(None, Phase.WAITING)) is JobPhase.RESTARTING
    assert phase_of(after, [pod(0), pod(1, 1)], report(None, Phase.WAITING)) is JobPhase.RESTARTING


def test_a_generation_of_an_earlier_epoch_trains_no_more() -> None:
    after = status(0, 1, restarts=1, generation="0.0")
    assert phase_of(after, [pod(0), pod(1, 1)], report("0.0")) is JobPhase.RESTARTING
    assert phase_of(after, [pod(0), pod(1, 1)], report("1.0")) is JobPhase.RUNNING


def test_a_job_on_the_volume_of_another_trains_in_generations_above_its_epoch() -> None:
    assert phase_of(fresh(), ALL, report("3.2")) is JobPhase.RUNNING
    running = status(0, 0, generation="3.2")
    assert phase_of(running, ALL, None) is JobPhase.RUNNING
    assert phase_of(running, ALL, report("3.2", Phase.WAITING)) is JobPhase.RUNNING


def test_a_job_that_once_trained_is_restarting_while_its_ranks_meet_again() -> None:
    assert phase_of(status(0, 0), ALL, report(None, Phase.WAITING)) is JobPhase.RESTARTING


def test_running_does_not_flicker_when_an_agent_cannot_be_asked() -> None:
    assert phase_of(status(0, 0), ALL, None) is JobPhase.RUNNING
    assert phase_of(status(0, 0), ALL, report("0.0", Phase.WAITING)) is JobPhase.RUNNING


def test_running_ends_with_the_pod_that_is_being_deleted() -> None:
    assert phase_of(status(0, 0), [pod(0), pod(1, deleting=True)], report("0.0")) is JobPhase.RESTARTING


def said(of: TrainingJobStatus, pods: list[Pod], hindrance: str = "") -> str:
    return message_of(of, pods, hindrance)


def test_the_message_says_what_is_waited_for() -> None:
    assert said(fresh(), []) == "waiting for replicas 0-1 to be created"
    assert said(fresh(), [], "quota exceeded") == "waiting for replicas 0-1 to be created: quota exceeded"
    pending = pod(1, phase=PodPhase.PENDING, waiting_reason="Unschedulable", waiting_message="no room")
    assert said(fresh(), [pod(0), pending]) == "replica 1: no room"
    assert said(fresh(), [pod(0), pod(1, phase=PodPhase.PENDING)]) == (
        "waiting for replica 1 to run: kubectl describe pod gpt-1-0"
    )
    assert said(fresh(), ALL) == "waiting for the ranks to meet"


def test_the_message_names_the_predecessor_and_the_last_failure() -> None:
    failure = Failure(time=NOW, replica=1, pod="gpt-1-0", reason="PodDeleted")
    after = status(0, 0, phase=JobPhase.RESTARTING, failures=(failure,))
    after = after.model_copy(update={"members": (members(0)[0], Member(index=1, epoch=1))})
    assert said(after, [pod(0), pod(1, deleting=True)]) == (
        "waiting for replica 1 to be created: pod gpt-1-0 must end first; last failure: replica 1 on pod gpt-1-0: "
        "PodDeleted"
    )


def test_the_message_of_a_running_job() -> None:
    assert said(status(0, 0), ALL) == "all 2 replicas train in generation 0.0"
    assert said(status(0), [pod(0)]) == "the only replica trains in generation 0.0"
