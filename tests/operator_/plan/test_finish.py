from datetime import timedelta

from operator_.plan.builders import NODES, NOW, ended, job, nodes, pod, spec_with, status
from ringtrain.contract.report import CheckpointRecord, JobReport, Progress, TerminationMessage
from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.budget import GivenUp
from ringtrain_operator.plan.conditions import COMPLETE, FAILED, RUNNING, find
from ringtrain_operator.plan.finish import GRACE, changed_too_late, clean_up, failed, is_over, succeeded
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import PodPhase
from ringtrain_operator.plan.result import DeletePod, EndPod

SPEC = parse("gpt", spec_with())
HEALTH = NodeHealth(NODES, 30, NOW)
DEAD = NodeHealth(nodes("node-0", ready=False, age=60), 30, NOW)


def done(of: TrainingJobStatus) -> TrainingJobStatus:
    return succeeded(job(status=of), of, [ended(0, code=0)], FaultTolerance(), 60, NOW)


def given_up() -> TrainingJobStatus:
    return failed(status(0, 0), GivenUp("MaxRestartsExceeded", "too often"), NOW)


def test_one_pod_that_ended_well_ends_the_job() -> None:
    assert is_over(status(0, 0), [ended(0, code=0), pod(1)], None)
    assert not is_over(status(0, 0), [ended(0, code=1), pod(1)], None)
    assert not is_over(status(1, 0), [ended(0, code=0), pod(1)], None)


def test_the_coordinators_word_ends_the_job_too() -> None:
    assert is_over(status(0, 0), [pod(0), pod(1)], JobReport(finished=True))
    assert not is_over(status(0, 0), [pod(0), pod(1)], JobReport())


def test_success_completes_the_progress() -> None:
    after = done(status(0, 0, round=57, restarts=1))
    assert (after.phase, after.progress, after.round) == (JobPhase.SUCCEEDED, "60/60", 60)
    assert after.message == "trained 60 rounds, with 1 restart"
    assert after.completion_time == NOW
    complete, running = find(after, COMPLETE), find(after, RUNNING)
    assert complete is not None
    assert complete.status == "True"
    assert running is not None
    assert running.status == "False"


def test_without_a_configured_end_the_last_words_of_a_pod_are_taken() -> None:
    record = CheckpointRecord(round=40, time=NOW)
    words = TerminationMessage(
        exit_code=0,
        reason="Done",
        message="",
        progress=Progress(round=40, total_rounds=40, loss=1.5),
        last_checkpoint=record,
    )
    after = succeeded(
        job(), status(0, round=37), [ended(0, code=0, message=words.to_json())], FaultTolerance(), None, NOW
    )
    assert (after.progress, after.loss, after.last_checkpoint) == ("40/40", "1.5000", record)


def test_nothing_is_made_up_about_rounds_that_nobody_told_of() -> None:
    after = succeeded(job(), status(0), [ended(0, code=0)], FaultTolerance(), None, NOW)
    assert (after.progress, after.message) == ("", "training is done")


def test_failure_says_why() -> None:
    after = given_up()
    assert (after.phase, after.message) == (JobPhase.FAILED, "too often")
    condition = find(after, FAILED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "MaxRestartsExceeded")


def test_a_spec_that_comes_after_the_end_is_ignored_aloud() -> None:
    over = given_up()
    assert changed_too_late(job(status=over)) == (over, ())
    after, (event,) = changed_too_late(job(status=over, generation=2))
    assert (event.type, event.reason) == ("Warning", "SpecIgnored")
    assert event.message.startswith("the job has failed and does not begin anew: delete it, then apply")
    assert "goes on from the newest checkpoint" in event.message
    assert after == over.model_copy(update={"observed_generation": 2})
    assert changed_too_late(job(status=after, generation=2)) == (after, ())


def test_a_failed_job_stops_what_runs_and_keeps_what_ended() -> None:
    plan = clean_up(given_up(), SPEC, [ended(0), pod(1)], HEALTH, NOW)
    assert plan.deletes == (DeletePod("gpt-1-0", "uid-1-0"),)
    assert plan.requeue_after is not None


def test_pods_of_a_done_job_get_time_to_end_by_themselves() -> None:
    after = done(status(0, 0))
    shown = [ended(0, code=0), pod(1, ready=True)]
    plan = clean_up(after, SPEC, shown, HEALTH, NOW)
    assert plan.deletes == ()
    assert plan.requeue_after == GRACE.total_seconds()
    assert plan.status.ready == 1
    assert clean_up(after, SPEC, shown, HEALTH, NOW + GRACE).deletes == (DeletePod("gpt-1-0", "uid-1-0"),)


def test_stale_pods_of_a_done_job_get_none() -> None:
    plan = clean_up(done(status(0, 1)), SPEC, [ended(0, code=0), pod(1, 0), pod(1, 1)], HEALTH, NOW)
    assert plan.deletes == (DeletePod("gpt-1-0", "uid-1-0"),)


def test_on_a_lost_node_force_is_used() -> None:
    plan = clean_up(given_up(), SPEC, [pod(0, deleting=True)], DEAD, NOW)
    assert plan.deletes == (DeletePod("gpt-0-0", "uid-0-0", force=True),)


def test_nothing_is_left_to_do_once_all_pods_ended() -> None:
    plan = clean_up(given_up(), SPEC, [ended(0), pod(1, phase=PodPhase.FAILED)], HEALTH, NOW + timedelta(days=1))
    assert (plan.deletes, plan.requeue_after) == ((), None)


def policy(of: str) -> TrainingJobSpec:
    return parse("gpt", spec_with(cleanPodPolicy=of))


def test_all_pods_go_where_none_is_to_be_kept() -> None:
    shown = [ended(0), pod(1), pod(2, phase=PodPhase.FAILED, deleting=True)]
    plan = clean_up(given_up(), policy("All"), shown, HEALTH, NOW)
    assert {delete.name for delete in plan.deletes} == {"gpt-0-0", "gpt-1-0"}
    assert plan.requeue_after is not None
    after = done(status(0, 0))
    plan = clean_up(after, policy("All"), [ended(0, code=0), pod(1)], HEALTH, NOW)
    assert [delete.name for delete in plan.deletes] == ["gpt-0-0"]
    assert clean_up(after, policy("All"), [], HEALTH, NOW).requeue_after is None


def test_no_pod_goes_where_all_are_to_be_kept() -> None:
    plan = clean_up(given_up(), policy("None"), [ended(0), pod(1)], HEALTH, NOW)
    assert (plan.deletes, plan.requeue_after) == ((), None)


def test_a_job_is_deleted_when_its_time_after_the_end_is_over() -> None:
    spec = parse("gpt", spec_with(ttlSecondsAfterFinished=90))
    before = clean_up(given_up(), spec, [ended(0)], HEALTH, NOW + timedelta(seconds=30))
    assert (before.delete_job, before.requeue_after) == (False, 60)
    after = clean_up(given_up(), spec, [ended(0), pod(1)], HEALTH, NOW + timedelta(seconds=90))
    assert (after.delete_job, after.deletes) == (True, ())
    at_once = parse("gpt", spec_with(ttlSecondsAfterFinished=0))
    assert clean_up(given_up(), at_once, [pod(0)], HEALTH, NOW).delete_job


def test_a_spec_that_cannot_be_read_deletes_no_job() -> None:
    plan = clean_up(given_up(), None, [ended(0), pod(1)], HEALTH, NOW + timedelta(days=9))
    assert (plan.delete_job, [delete.name for delete in plan.deletes]) == (False, ["gpt-1-0"])


def test_side_cars_end_too_and_leave_the_logs() -> None:
    plan = clean_up(done(status(0)), SPEC, [pod(0, exit_code=0)], HEALTH, NOW + GRACE)
    assert plan.deletes == (EndPod("gpt-0-0", "uid-0-0"),)
    assert plan.requeue_after is not None
