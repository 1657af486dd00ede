from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from operator_.plan.builders import NODES, NOW, ended, job, nodes, pod, spec_with, status
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, Notice, Progress, RankFailure, TerminationMessage
from ringtrain_operator.api.status import Failure, JobPhase, Member, TrainingJobStatus
from ringtrain_operator.plan.conditions import ACCEPTED, RUNNING, find
from ringtrain_operator.plan.observed import Observed, Pod, PodPhase
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import DeletePod, Plan

ALL = (pod(0, ready=True), pod(1, ready=True), pod(2, ready=True))
TRAINS = JobReport(
    generation="0.0",
    phase=Phase.TRAINING,
    progress=Progress(round=12, total_rounds=60, loss=3.5),
    coordinator_id="one",
)


def observed(*pods: Pod, **fields: Any) -> Observed:
    given: dict[str, Any] = {"pods": pods, "nodes": NODES, "service_exists": True, "claim_exists": True}
    return Observed(**(given | fields))


def created(of: Plan) -> list[str]:
    return [create.manifest["metadata"]["name"] for create in of.creates]


def reasons(of: Plan) -> list[str]:
    return [event.reason for event in of.events]


def truth(of: TrainingJobStatus, kind: str) -> tuple[str, str]:
    condition = find(of, kind)
    assert condition is not None
    return condition.status, condition.reason


def test_a_new_job_persists_its_members_and_creates_its_pods() -> None:
    made = plan(job(), observed(service_exists=False), NOW)
    assert created(made) == ["gpt", "gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert made.status.members == tuple(Member(index=index, epoch=0) for index in range(3))
    assert (made.status.phase, made.status.progress, made.status.replicas) == (JobPhase.PENDING, "0/60", 3)
    assert (made.status.start_time, made.status.observed_generation) == (NOW, 1)
    assert truth(made.status, ACCEPTED) == ("True", "SpecValid")
    assert truth(made.status, RUNNING) == ("False", "Pending")
    assert reasons(made) == ["Started"]
    assert made.requeue_after is not None


def test_pods_that_are_not_shown_yet_are_created_again_under_the_same_names() -> None:
    first = plan(job(), observed(), NOW)
    again = plan(job(status=first.status), observed(), NOW)
    assert created(again) == created(first)
    assert again.events == ()


@pytest.mark.parametrize(
    "shown",
    [
        observed(),
        observed(pod(0, phase=PodPhase.PENDING), pod(1), pod(2)),
        observed(*ALL),
        observed(*ALL, report=TRAINS),
        observed(ended(0), pod(1), pod(2)),
        observed(*ALL, claim_exists=False),
        observed(ended(0, code=78), pod(1), pod(2)),
        observed(ended(0, code=0), pod(1), pod(2)),
    ],
)
def test_a_pass_in_which_nothing_happened_writes_nothing(shown: Observed) -> None:
    first = plan(job(), shown, NOW).status
    second = plan(job(status=first), shown, NOW + timedelta(seconds=3))
    assert second.status == first
    assert second.events == ()


def test_running_pods_are_known_and_wait_for_each_other() -> None:
    before = plan(job(), observed(), NOW).status
    made = plan(job(status=before), observed(*ALL), NOW)
    assert [member.pod_uid for member in made.status.members] == ["uid-0-0", "uid-1-0", "uid-2-0"]
    assert (made.status.phase, made.status.ready) == (JobPhase.STARTING, 3)
    assert (made.creates, made.deletes, made.events) == ((), (), ())


def test_training_is_reported() -> None:
    before = status(0, 0, 0, phase=JobPhase.STARTING, generation="")
    made = plan(job(status=before), observed(*ALL, report=TRAINS), NOW)
    assert made.status.phase is JobPhase.RUNNING
    assert (made.status.progress, made.status.loss, made.status.generation) == ("12/60", "3.5000", "0.0")
    assert truth(made.status, RUNNING) == ("True", "Training")
    assert reasons(made) == ["Training"]


def test_an_outdated_report_changes_nothing() -> None:
    before = status(0, 1, 0, generation="1.0", phase=JobPhase.RUNNING, round=20, total_rounds=60, restarts=1)
    shown = observed(pod(0), pod(1, 1), pod(2))
    made = plan(job(status=before), replace(shown, report=TRAINS), NOW)
    assert (made.status.round, made.status.generation) == (20, "1.0")


def test_a_failed_pod_raises_the_epoch_and_is_replaced() -> None:
    made = plan(job(status=status(0, 0, 0)), observed(pod(0), ended(1, code=82), pod(2)), NOW)
    after = made.status
    assert (after.epoch, after.restarts, after.counted_restarts) == (1, 1, 1)
    assert after.members[1] == Member(index=1, epoch=1)
    assert (after.phase, after.failures[-1].reason) == (JobPhase.RESTARTING, "Hang")
    assert created(made) == ["gpt-1-1"]
    assert made.deletes == ()
    assert reasons(made) == ["Hang"]
    assert "restart 1; 1 of 2 counted" in made.events[0].message
    assert "last failure: replica 1 on pod gpt-1-0" in after.message


def test_a_pod_that_still_runs_is_replaced_once_it_is_gone() -> None:
    deleting = pod(1, deleting=True)
    first = plan(job(status=status(0, 0, 0)), observed(pod(0), deleting, pod(2)), NOW)
    assert (created(first), first.deletes) == ([], ())
    assert (first.status.restarts, first.status.counted_restarts) == (1, 0)
    second = plan(job(status=first.status), observed(pod(0), deleting, pod(2)), NOW)
    assert (created(second), second.status) == ([], first.status)
    third = plan(job(status=first.status), observed(pod(0), pod(2)), NOW)
    assert created(third) == ["gpt-1-1"]


def test_several_failures_share_a_raised_epoch() -> None:
    made = plan(job(status=status(0, 3, 0)), observed(ended(0), pod(1, 3), ended(2)), NOW)
    assert [member.epoch for member in made.status.members] == [4, 3, 4]
    assert (made.status.epoch, made.status.restarts, len(made.status.failures)) == (4, 1, 2)
    assert created(made) == ["gpt-0-4", "gpt-2-4"]


def test_what_all_ranks_fail_by_at_once_is_one_restart_however_late_it_is_seen() -> None:
    limited = spec_with(faultTolerance={"maxRestarts": 1})

    def raised(index: int, epoch: int, generation: str) -> Pod:
        said = TerminationMessage(exit_code=70, reason="UserError", message="x", rank=index, generation=generation)
        return ended(index, epoch, code=70, message=said.to_json())

    first = plan(job(limited, status(0, 0, 0)), observed(raised(0, 0, "0.7"), pod(1), pod(2)), NOW).status
    later = NOW + timedelta(seconds=3)
    late = [raised(0, 0, "0.7"), pod(0, 1), raised(1, 0, "0.7"), raised(2, 0, "0.7")]
    second = plan(job(limited, first), observed(*late), later)
    after = second.status
    assert (after.phase, after.restarts, after.counted_restarts, len(after.failures)) == (JobPhase.RESTARTING, 1, 1, 3)
    assert all(event.message.endswith("replaced (restart 1; 1 of 1 counted)") for event in second.events)
    again = [pod(0, 1), raised(1, 2, "2.0"), pod(2, 2)]
    last = plan(job(limited, after), observed(*again), later).status
    assert (last.phase, len(last.failures)) == (JobPhase.FAILED, 4)


def test_what_is_seen_late_of_a_replaced_pod_is_no_failure() -> None:
    before = status(0, 1, 0, restarts=1)
    made = plan(job(status=before), observed(pod(0), ended(1, 0), pod(1, 1), pod(2)), NOW)
    assert (made.status.restarts, made.status.epoch) == (1, 1)


def test_a_pod_on_a_lost_node_is_removed_by_force_and_then_replaced() -> None:
    lost = NODES | nodes("node-1", ready=False, age=30)
    first = plan(job(status=status(0, 0, 0)), observed(*ALL, nodes=lost), NOW)
    assert first.status.failures[-1].reason == "NodeLost"
    assert first.deletes == (DeletePod("gpt-1-0", "uid-1-0", force=True),)
    assert created(first) == []
    second = plan(job(status=first.status), observed(pod(0), pod(2), nodes=lost), NOW)
    assert created(second) == ["gpt-1-1"]


def test_the_next_pass_comes_when_a_node_is_given_up() -> None:
    doubtful = NODES | nodes("node-1", ready=False, age=28)
    made = plan(job(status=status(0, 0, 0)), observed(*ALL, nodes=doubtful), NOW)
    assert made.status.restarts == 0
    assert made.requeue_after == 2


def test_only_the_last_failures_are_kept() -> None:
    current = status(0, 0, 0)
    spec = spec_with(faultTolerance={"maxRestarts": 50})
    for epoch in range(12):
        now = NOW + timedelta(seconds=epoch)
        current = plan(job(spec, current), observed(ended(0, epoch), pod(1), pod(2)), now).status
    assert current.restarts == 12
    assert [failure.pod for failure in current.failures] == [f"gpt-0-{epoch}" for epoch in range(2, 12)]


def test_a_spent_budget_fails_the_job_and_stops_the_healthy_pods() -> None:
    before = status(0, 0, 0, restarts=2, counted_restarts=2)
    made = plan(job(status=before), observed(pod(0), ended(1), pod(2)), NOW)
    assert made.status.phase is JobPhase.FAILED
    assert [delete.name for delete in made.deletes] == ["gpt-0-0", "gpt-2-0"]
    assert (created(made), reasons(made)) == ([], ["MaxRestartsExceeded"])
    assert made.status.failures[-1].pod == "gpt-1-0"
    assert (made.status.restarts, made.status.counted_restarts) == (2, 2)


def test_a_bad_configuration_fails_the_job_at_once() -> None:
    made = plan(job(status=status(0, 0, 0)), observed(pod(0), ended(1, code=78), pod(2)), NOW)
    assert (made.status.phase, reasons(made)) == (JobPhase.FAILED, ["BadConfiguration"])


def test_one_pod_that_ended_well_makes_the_job_succeed_whatever_became_of_others() -> None:
    made = plan(job(status=status(0, 0, 0)), observed(ended(0, code=0), ended(1, code=1), pod(2)), NOW)
    assert (made.status.phase, made.status.progress) == (JobPhase.SUCCEEDED, "60/60")
    assert (made.deletes, made.creates, reasons(made)) == ((), (), ["Succeeded"])


@pytest.mark.parametrize("phase", [JobPhase.SUCCEEDED, JobPhase.FAILED])
def test_terminal_stays_terminal(phase: JobPhase) -> None:
    before = status(0, 0, 0, phase=phase, completion_time=NOW)
    made = plan(job(status=before), observed(ended(0), ended(1)), NOW)
    assert (made.status, made.creates, made.events) == (before, (), ())
    made = plan(job(spec_with(replicas=0), before, generation=2), observed(ended(0), ended(1)), NOW)
    assert made.status == before.model_copy(update={"observed_generation": 2})
    assert (made.creates, reasons(made)) == ((), ["SpecIgnored"])


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    made = plan(job(status=status(0, 0, 0), deleting=True), observed(), NOW)
    assert made == Plan(status=status(0, 0, 0))


def test_an_invalid_spec_creates_nothing_and_is_said_once() -> None:
    made = plan(job(spec_with(replicas=0)), observed(), NOW)
    assert (made.status.phase, made.creates) == (JobPhase.INVALID, ())
    assert "spec.replicas" in made.status.message
    assert truth(made.status, ACCEPTED) == ("False", "InvalidSpec")
    assert reasons(made) == ["InvalidSpec"]
    again = plan(job(spec_with(replicas=0), made.status), observed(), NOW + timedelta(hours=1))
    assert (again.status, again.events) == (made.status, ())
    other = plan(job(spec_with(replicas=-1), made.status, generation=2), observed(), NOW)
    assert (reasons(other), other.status.observed_generation) == (["InvalidSpec"], 2)


def test_a_corrected_spec_goes_on() -> None:
    invalid = plan(job(spec_with(replicas=0)), observed(), NOW).status
    made = plan(job(status=invalid, generation=2), observed(), NOW)
    assert created(made) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert made.status.phase is JobPhase.PENDING
    assert truth(made.status, ACCEPTED) == ("True", "SpecValid")


def test_a_spec_that_is_made_invalid_lets_pods_go_on_and_finish() -> None:
    invalid = spec_with(replicas=0)
    made = plan(job(invalid, status(0, 0, 0)), observed(pod(0), ended(1), pod(2), report=TRAINS), NOW)
    assert (made.status.phase, made.status.round, made.status.restarts) == (JobPhase.RESTARTING, 12, 0)
    assert (made.creates, made.deletes, reasons(made)) == ((), (), ["InvalidSpec"])
    assert "pods that run go on" in made.status.message
    done = plan(job(invalid, made.status), observed(ended(0, code=0), pod(2)), NOW)
    assert (done.status.phase, done.status.progress) == (JobPhase.SUCCEEDED, "60/60")


def test_a_missing_claim_is_waited_for_without_any_child() -> None:
    made = plan(job(), observed(service_exists=False, claim_exists=False), NOW)
    assert (made.status.phase, made.status.members, made.creates) == (JobPhase.PENDING, (), ())
    assert "PersistentVolumeClaim disk" in made.status.message
    assert reasons(made) == ["Waiting"]
    assert made.requeue_after is not None
    made = plan(job(status=made.status), observed(), NOW)
    assert created(made) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]


def test_a_claim_that_goes_missing_holds_back_replacements_only() -> None:
    made = plan(job(status=status(0, 0, 0)), observed(pod(0), ended(1), pod(2), claim_exists=False), NOW)
    assert (made.status.restarts, created(made)) == (1, [])
    assert "PersistentVolumeClaim disk" in made.status.message


def test_pods_of_an_earlier_job_are_waited_for_and_left_alone() -> None:
    made = plan(job(), observed(pod(0, 3, foreign=True)), NOW)
    assert (created(made), made.deletes, made.status.epoch) == ([], (), 0)
    assert "gpt-0-3" in made.status.message


def test_why_a_create_was_refused_is_said() -> None:
    before = plan(job(), observed(), NOW).status
    made = plan(job(status=before), observed(refused="Pod gpt-0-0 was refused: exceeded quota"), NOW)
    assert "exceeded quota" in made.status.message


def test_notices_become_events_and_warnings() -> None:
    notice = Notice(sequence=4, time=NOW, reason="CheckpointDamaged", message="round 10 is damaged")
    report = TRAINS.model_copy(update={"notices": (notice,)})
    made = plan(job(status=status(0, 0, 0)), observed(*ALL, report=report), NOW)
    assert reasons(made) == ["CheckpointDamaged"]
    assert made.status.warnings[-1].message == "round 10 is damaged"
    assert plan(job(status=made.status), observed(*ALL, report=report), NOW).events == ()


def test_a_status_that_is_behind_the_pods_is_never_acted_on() -> None:
    behind = status(0, 0, 0)
    made = plan(job(status=behind), observed(pod(0), pod(1, 2), pod(2)), NOW)
    assert (made.deletes, made.creates, made.requeue_after) == ((), (), 0)
    assert made.status == behind.model_copy(update={"epoch": 2})


def test_a_job_whose_status_was_lost_takes_its_newest_pods_back() -> None:
    shown = observed(pod(0, 2), pod(1, 2), pod(2, 1))
    first = plan(job(), shown, NOW)
    assert (first.status.epoch, first.creates, first.deletes) == (2, (), ())
    second = plan(job(status=first.status), shown, NOW)
    assert [member.epoch for member in second.status.members] == [2, 2, 2]
    assert second.deletes == (DeletePod("gpt-2-1", "uid-2-1"),)


def test_the_status_can_be_stored_and_read_back() -> None:
    made = plan(job(status=status(0, 0, 0)), observed(pod(0), ended(1, code=82), pod(2), report=TRAINS), NOW).status
    assert TrainingJobStatus.model_validate_json(made.to_json()) == made


def test_ranks_that_were_started_again_in_their_pods_spend_the_budget() -> None:
    limited = spec_with(faultTolerance={"maxRestarts": 2})
    before = plan(job(spec=limited), observed(), NOW).status
    failures = [
        RankFailure(time=NOW, replica=1, epoch=0, number=number, rank=1, exit_code=137, message="rank 1 was killed")
        for number in (1, 2, 3)
    ]

    def seen(count: int) -> Observed:
        return observed(*ALL, report=TRAINS.model_copy(update={"rank_failures": tuple(failures[:count])}))

    first = plan(job(status=before, spec=limited), seen(2), NOW)
    assert (first.status.restarts, first.status.counted_restarts, first.status.epoch) == (2, 2, 0)
    assert (first.deletes, first.creates) == ((), ())
    assert [event.message for event in first.events if event.reason == "Signal9"] == [
        "rank 1 on pod gpt-1-0, node node-1: Signal9: rank 1 was killed; started again in its pod "
        "(restart 1; 1 of 2 counted)",
        "rank 1 on pod gpt-1-0, node node-1: Signal9: rank 1 was killed; started again in its pod "
        "(restart 2; 2 of 2 counted)",
    ]
    last = plan(job(status=first.status, spec=limited), seen(3), NOW)
    assert last.status.phase is JobPhase.FAILED
    assert "restarted 2 of 2 times" in last.status.message


def test_a_replacement_keeps_off_the_node_on_which_the_job_failed_again_and_again() -> None:
    spec = spec_with(faultTolerance={"nodeExclusion": {"afterFailures": 2}})
    earlier = Failure(time=NOW, replica=1, pod="gpt-1-0", node="node-1", reason="Hang", exit_code=82)
    before = status(0, 1, 0, failures=(earlier,))
    pods = (pod(0), ended(1, 1, code=139), pod(2))
    after = plan(job(spec, before), observed(*pods), NOW)
    assert [node.name for node in after.status.excluded_nodes] == ["node-1"]
    assert reasons(after)[-1] == "NodeExcluded"
    affinity = after.creates[0].manifest["spec"]["affinity"]["nodeAffinity"]
    assert "node-1" in str(affinity)


def test_a_machine_that_fails_its_check_is_replaced_on_another_node_at_once() -> None:
    spec = spec_with(faultTolerance={"preflight": {}})
    said = TerminationMessage(
        exit_code=86, reason="Unfit", message="rank 2: unfit: its matrix product is wrong", rank=2
    )
    pods = (pod(0), ended(1, code=86, message=said.to_json()), pod(2))
    after = plan(job(spec, status(0, 0, 0, phase=JobPhase.STARTING)), observed(*pods), NOW)
    (failure,) = after.status.failures
    assert (failure.reason, failure.rank, failure.node, failure.counted) == ("Unfit", 2, "node-1", True)
    assert [node.name for node in after.status.excluded_nodes] == ["node-1"]
    assert reasons(after) == ["Unfit", "NodeExcluded"]
    (replacement,) = after.creates
    assert replacement.manifest["metadata"]["name"] == "gpt-1-1"
    assert "node-1" in str(replacement.manifest["spec"]["affinity"]["nodeAffinity"])


def test_places_are_given_back_at_the_end_whatever_becomes_of_the_pods() -> None:
    spec = spec_with(cleanPodPolicy="None")
    holder = pod(3, holding=True)
    over = plan(job(spec, status(0, 0, 0)), observed(ended(0, code=0), pod(1), pod(2), holder), NOW)
    assert [delete.name for delete in over.deletes] == ["gpt-3-0"]


def test_no_pod_begins_before_those_that_hold_a_place_have_ended() -> None:
    between = status(epoch=1, members=(), phase=JobPhase.RESTARTING)
    waits = plan(job(status=between), observed(pod(2, holding=True)), NOW)
    assert (created(waits), [delete.name for delete in waits.deletes]) == ([], ["gpt-2-0"])
    assert created(plan(job(status=between), observed(), NOW)) != []
