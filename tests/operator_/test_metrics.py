from datetime import UTC, datetime

from prometheus_client import generate_latest

from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.metrics import OperatorMetrics
from ringtrain_operator.plan.observed import JobKey

KEY = JobKey("n", "j")
RUNNING = TrainingJobStatus(phase=JobPhase.RUNNING, round=7, total_rounds=20, ready=2)


def failure(second: int, reason: str) -> Failure:
    return Failure(time=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), replica=0, pod="j-0-0", reason=reason)


def restarts(metrics: OperatorMetrics, reason: str) -> float | None:
    return metrics.registry.get_sample_value("ringtrain_operator_restarts_total", {"reason": reason})


def test_a_jobs_gauges_come_and_go_with_it() -> None:
    metrics = OperatorMetrics(lambda: 3)
    metrics.jobs.seen(KEY, RUNNING)
    labels = {"namespace": "n", "training_job": "j"}
    value = metrics.registry.get_sample_value
    assert value("ringtrain_job_round", labels) == 7
    assert value("ringtrain_job_total_rounds", labels) == 20
    assert value("ringtrain_job_ready_replicas", labels) == 2
    assert value("ringtrain_job_restarts", labels) == 0
    assert value("ringtrain_job_phase", labels | {"phase": "Running"}) == 1
    assert value("ringtrain_operator_jobs", {"phase": "Running"}) == 1
    assert value("ringtrain_operator_jobs", {"phase": "Failed"}) == 0
    assert value("ringtrain_operator_queue_depth") == 3
    metrics.jobs.seen(KEY, None)
    assert b'job="j"' not in generate_latest(metrics.registry)
    assert value("ringtrain_operator_jobs", {"phase": "Running"}) == 0


def test_jobs_whose_deletion_was_missed_go_with_the_next_list() -> None:
    metrics = OperatorMetrics(lambda: 0)
    metrics.jobs.seen(KEY, RUNNING)
    metrics.jobs.seen(JobKey("n", "k"), RUNNING)
    metrics.jobs.keep({KEY})
    assert metrics.registry.get_sample_value("ringtrain_operator_jobs", {"phase": "Running"}) == 1


def test_restarts_count_each_new_failure_once() -> None:
    metrics = OperatorMetrics(lambda: 0)
    old, hang, crash = failure(1, "Hang"), failure(2, "Hang"), failure(3, "Crashed")
    metrics.jobs.seen(KEY, TrainingJobStatus(failures=(old,)))
    assert restarts(metrics, "Hang") is None  # It happened before this operator started.
    for _ in range(2):
        metrics.jobs.seen(KEY, TrainingJobStatus(failures=(old, hang, crash)))
    assert restarts(metrics, "Hang") == 1
    assert restarts(metrics, "Crashed") == 1
