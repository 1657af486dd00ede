"""How long a job may take, and how long it may wait."""

from datetime import datetime

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.budget import GivenUp


def started(status: TrainingJobStatus, now: datetime) -> TrainingJobStatus:
    """Pods begin."""
    return status.model_copy(
        update={"start_time": status.start_time or now, "active_since": status.active_since or now}
    )


def suspended(status: TrainingJobStatus, now: datetime) -> TrainingJobStatus:
    """Time stands still."""
    update = {"active_seconds": _active_seconds(status, now), "active_since": None, "pending_since": None}
    return status.model_copy(update=update)


def waits(status: TrainingJobStatus, waiting: bool, now: datetime) -> TrainingJobStatus:
    """`waiting`: not all pods run."""
    return status.model_copy(update={"pending_since": (status.pending_since or now) if waiting else None})


def exceeded(spec: TrainingJobSpec, status: TrainingJobStatus, now: datetime) -> GivenUp | None:
    """What ends the job; `status` has its message."""
    if spec.active_deadline_seconds is not None and _active_seconds(status, now) >= spec.active_deadline_seconds:
        text = f"the job was active for {spec.active_deadline_seconds} s (activeDeadlineSeconds)"
        return GivenUp("DeadlineExceeded", text)
    if spec.pending_deadline_seconds is not None and _pending_seconds(status, now) >= spec.pending_deadline_seconds:
        text = f"not all pods ran within {spec.pending_deadline_seconds} s (pendingDeadlineSeconds): {status.message}"
        return GivenUp("PendingDeadlineExceeded", text)
    return None


def seconds_left(spec: TrainingJobSpec, status: TrainingJobStatus, now: datetime) -> float | None:
    """Until the next deadline; None when no time runs out."""
    left = []
    if spec.active_deadline_seconds is not None and status.active_since is not None:
        left.append(spec.active_deadline_seconds - _active_seconds(status, now))
    if spec.pending_deadline_seconds is not None and status.pending_since is not None:
        left.append(spec.pending_deadline_seconds - _pending_seconds(status, now))
    return min(left, default=None)


def _active_seconds(status: TrainingJobStatus, now: datetime) -> int:
    return status.active_seconds + _since(status.active_since, now)


def _pending_seconds(status: TrainingJobStatus, now: datetime) -> int:
    return _since(status.pending_since, now)


def _since(time: datetime | None, now: datetime) -> int:
    return max(0, int((now - time).total_seconds())) if time is not None else 0
