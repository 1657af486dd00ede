"""When failures end a job instead of being repaired."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringtrain_operator.api.status import Failure, TrainingJobStatus
from ringtrain_operator.plan.failures import describe, is_never_restarted
from ringtrain_operator.plan.observed import Job


@dataclass(frozen=True, slots=True)
class GivenUp:
    reason: str
    """CamelCase."""
    message: str
    """What happened and what a user can do."""


def judge(job: Job, status: TrainingJobStatus, failures: Sequence[Failure], max_restarts: int) -> GivenUp | None:
    """`status` is the one before `failures`, which happened since. None: repair them."""
    for failure in failures:
        if is_never_restarted(failure):
            advice = "restarting cannot help: correct the job and apply it anew"
            return GivenUp(failure.reason, f"{describe(failure)}; {advice} ({_logs(job, failure)})")
    counted = [failure for failure in failures if failure.counted]
    if status.counted_restarts + len(counted) > max_restarts:
        last = counted[-1]
        return GivenUp(
            "MaxRestartsExceeded",
            f"restarted {status.counted_restarts} of {max_restarts} times (faultTolerance.maxRestarts); last failure: "
            f"{describe(last)}; see {_logs(job, last)}, or raise maxRestarts and apply the job anew",
        )
    return None


def spent(status: TrainingJobStatus, max_restarts: int) -> str:
    """`restart 3; 2 of 10 counted`."""
    return f"restart {status.restarts}; {status.counted_restarts} of {max_restarts} counted"


def _logs(job: Job, failure: Failure) -> str:
    return job.log_file.format(pod=failure.pod) or f"kubectl logs -n {job.key.namespace} {failure.pod}"
