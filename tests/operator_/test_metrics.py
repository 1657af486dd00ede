from datetime import UTC, datetime

from prometheus_client import generate_latest

from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.metrics import OperatorMetrics
from ringtrain_operator.plan.observed import JobKey

KEY = JobKey("n", "j")
NOW = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)
RUNNING = TrainingJobStatus(phase=JobPhase.RUNNING, round=7, total_rounds=20, ready=2)


def failure(second: int, reason: str) -> Failure:
    return Failure(time=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), replica=0, pod="j-0-0", reason=reason)


def restarts(metrics: OperatorMetrics, reason: str) -> float | None:
    return metrics.registry.get_sample_value("ringtrain_operator_restarts_total", {"reason": reason})


def test_a_jobs_gauges_come_and_go_with_it() -> None:
    metrics = OperatorMetrics(lambda: 3)
    metrics.jobs.seen(KEY, RUNNING, NOW)
    labels = {"namespace": "n", "training_job": "j"}
    value = metrics.registry.get_sample_value
    assert value("ringtrain_job_round", labels) == 7
    assert value("ringtrain_job_total_rounds", labels) == 20
    assert value("ringtrain_job_ready_replicas", labels) == 2
    assert value("ringtrain_job_restarts_total", labels) == 0
    assert value("ringtrain_job_last_checkpoint_timestamp_seconds", labels) is None
    assert value("ringtrain_job_phase", labels | {"phase": "Running"}) == 1
    assert value("ringtrain_operator_jobs", {"phase": "Running"}) == 1
    assert value("ringtrain_operator_jobs", {"phase": "Failed"}) == 0
    assert value("ringtrain_operator_queue_depth") == 3
    assert value("ringtrain_operator_leading") == 1
    metrics.jobs.seen(KEY, None, NOW)
    assert b'job="j"' not in generate_latest(metrics.registry)
    assert value("ringtrain_operator_jobs", {"phase": "Running"}) == 0


def test_jobs_whose_deletion_was_missed_go_with_the_next_list() -> None:
    metrics = OperatorMetrics(lambda: 0)
    metrics.jobs.seen(KEY, RUNNING, NOW)
    metrics.jobs.seen(JobKey("n", "k"), RUNNING, NOW)
    metrics.jobs.keep({KEY})
    assert metrics.registry.get_sample_value("ringtrain_operator_jobs", {"phase": "Running"}) == 1


def test_restarts_count_each_new_failure_once() -> None:
    metrics = OperatorMetrics(lambda: 0)
    old, hang, crash = failure(1, "Hang"), failure(2, "Hang"), failure(3, "Crashed")
    metrics.jobs.seen(KEY, TrainingJobStatus(failures=(old,)), NOW)
    assert restarts(metrics, "Hang") is None  # It happened before this operator started.
    for _ in range(2):
        metrics.jobs.seen(KEY, TrainingJobStatus(failures=(old, hang, crash)), NOW)
    assert restarts(metrics, "Hang") == 1
    assert restarts(metrics, "Crashed") == 1


def test_recovery_lasts_from_the_first_failure_until_the_job_trains() -> None:
    metrics = OperatorMetrics(lambda: 0)
    value = metrics.registry.get_sample_value
    first, second = failure(10, "Hang"), failure(20, "Crashed")
    restarting = RUNNING.model_copy(update={"phase": JobPhase.RESTARTING, "failures": (first,)})
    metrics.jobs.seen(KEY, RUNNING, NOW)
    metrics.jobs.seen(KEY, restarting, NOW)
    metrics.jobs.seen(KEY, restarting.model_copy(update={"failures": (first, second)}), NOW)
    assert value("ringtrain_operator_recovery_seconds_count") == 0
    again = RUNNING.model_copy(update={"failures": (first, second)})
    for _ in range(2):
        metrics.jobs.seen(KEY, again, NOW)
    assert value("ringtrain_operator_recovery_seconds_count") == 1
    assert value("ringtrain_operator_recovery_seconds_sum") == 50


def test_an_operator_that_stands_by_does_not_lead() -> None:
    value = OperatorMetrics(lambda: None).registry.get_sample_value
    assert (value("ringtrain_operator_leading"), value("ringtrain_operator_queue_depth")) == (0, 0)


def test_detection_lasts_from_what_happened_until_it_was_noticed() -> None:
    metrics = OperatorMetrics(lambda: 0)
    value = metrics.registry.get_sample_value
    told = failure(10, "Hang").model_copy(update={"happened": datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)})
    metrics.jobs.seen(KEY, RUNNING, NOW)
    metrics.jobs.seen(KEY, RUNNING.model_copy(update={"failures": (failure(9, "PodDeleted"), told)}), NOW)
    assert value("ringtrain_operator_detection_seconds_count") == 1
    assert value("ringtrain_operator_detection_seconds_sum") == 3


def test_requests_are_counted_by_verb_and_answer() -> None:
    metrics = OperatorMetrics(lambda: 0)
    metrics.requested("GET", 200, 0.25)
    metrics.requested("GET", 0, 15.0)
    value = metrics.registry.get_sample_value
    assert value("ringtrain_operator_api_requests_total", {"verb": "GET", "code": "200"}) == 1
    assert value("ringtrain_operator_api_requests_total", {"verb": "GET", "code": "0"}) == 1
    assert value("ringtrain_operator_api_request_seconds_sum", {"verb": "GET"}) == 15.25
