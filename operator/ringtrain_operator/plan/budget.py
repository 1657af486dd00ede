"""Which restarts are counted, and when failures end a job instead of being repaired."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ringtrain.contract import exit_codes
from ringtrain_operator.api.spec import FailureAction, FaultTolerance
from ringtrain_operator.api.status import Failure, TrainingJobStatus
from ringtrain_operator.plan import incidents
from ringtrain_operator.plan.failures import describe
from ringtrain_operator.plan.observed import Job


@dataclass(frozen=True, slots=True)
class GivenUp:
    reason: str
    """CamelCase."""
    message: str
    """What happened and what a user can do."""


def judge(
    job: Job, status: TrainingJobStatus, failures: Sequence[Failure], tolerance: FaultTolerance, now: datetime
) -> GivenUp | None:
    """`status` is the one before `failures`, which happened since. None: repair them."""
    for failure in failures:
        if failure.action is FailureAction.FAIL_JOB:
            return GivenUp(failure.reason, f"{describe(failure)}; {_advice(failure)} ({_logs(job, failure)})")
    after = charged(status, failures, tolerance, now)
    if after.counted_restarts > status.counted_restarts and spent(after, tolerance, now) > tolerance.max_restarts:
        last = [failure for failure in failures if failure.counted][-1]
        return GivenUp(
            "MaxRestartsExceeded",
            f"restarted {spent(status, tolerance, now)} of {tolerance.max_restarts} times{_within(tolerance)} "
            f"(faultTolerance.maxRestarts); last failure: {describe(last)}; see {_logs(job, last)}, or raise "
            "maxRestarts and apply the job anew",
        )
    return None


def charged(
    status: TrainingJobStatus, failures: Sequence[Failure], tolerance: FaultTolerance, now: datetime
) -> TrainingJobStatus:
    """`status` with the restarts after `failures` in its counters: one for each incident."""
    for failure in failures:
        if failure.action is not FailureAction.IGNORE:
            status = _charged(status, failure, tolerance, now)
    return status


def _charged(
    status: TrainingJobStatus, failure: Failure, tolerance: FaultTolerance, now: datetime
) -> TrainingJobStatus:
    incident = incidents.of(status.incident, failure)
    begins = incidents.begins(incident)
    was_counted = not begins and status.incident is not None and status.incident.counted
    counts = incident.counted and not was_counted
    recent = (*_recent(status, tolerance, now), *[now] * counts) if tolerance.restart_window_seconds else ()
    return status.model_copy(
        update={
            "restarts": status.restarts + begins,
            "counted_restarts": status.counted_restarts + counts,
            "recent_counted_restarts": recent,
            "incident": incident,
        }
    )


def spent(status: TrainingJobStatus, tolerance: FaultTolerance, now: datetime) -> int:
    """Of tolerance.max_restarts."""
    if tolerance.restart_window_seconds is None:
        return status.counted_restarts
    return len(_recent(status, tolerance, now))


def told(status: TrainingJobStatus, tolerance: FaultTolerance, now: datetime) -> str:
    """`restart 3; 2 of 10 counted`."""
    counted = f"{spent(status, tolerance, now)} of {tolerance.max_restarts} counted{_within(tolerance)}"
    return f"restart {status.restarts}; {counted}"


def _recent(status: TrainingJobStatus, tolerance: FaultTolerance, now: datetime) -> list[datetime]:
    window = timedelta(seconds=tolerance.restart_window_seconds or 0)
    return [time for time in status.recent_counted_restarts if now - time < window]


def _within(tolerance: FaultTolerance) -> str:
    window = tolerance.restart_window_seconds
    return f" within {window} s" if window is not None else ""


def _advice(failure: Failure) -> str:
    if failure.exit_code in exit_codes.NEVER_RESTARTED:
        return "restarting cannot help: correct the job and apply it anew"
    return "a rule of faultTolerance.rules fails the job for it"


def _logs(job: Job, failure: Failure) -> str:
    return job.log_file.format(pod=failure.pod) or f"kubectl logs -n {job.key.namespace} {failure.pod}"
