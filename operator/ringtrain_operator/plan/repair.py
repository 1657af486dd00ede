"""What failures that are repaired leave in the status, and what is told of them."""

from collections.abc import Sequence
from datetime import datetime

from ringtrain_operator.api.spec import FailureAction, FaultTolerance
from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.plan import budget, members
from ringtrain_operator.plan.failures import describe
from ringtrain_operator.plan.result import Event


def repaired(
    status: TrainingJobStatus, failures: Sequence[Failure], tolerance: FaultTolerance, now: datetime
) -> TrainingJobStatus:
    """With one raised epoch for the new pods of all replicas that failed."""
    if not failures:
        return status
    status = budget.charged(status, failures, tolerance, now).model_copy(update={"phase": JobPhase.RESTARTING})
    replaced = [failure for failure in failures if not failure.in_place]
    if not replaced:
        return status
    epoch = status.epoch + 1
    return status.model_copy(update={"epoch": epoch, "members": members.replaced(status.members, replaced, epoch)})


def events(
    before: TrainingJobStatus, failures: Sequence[Failure], tolerance: FaultTolerance, now: datetime
) -> tuple[Event, ...]:
    """One for each of `failures`, which happened since `before`, with its own number."""
    told = []
    for failure in failures:
        before = budget.charged(before, [failure], tolerance, now)
        done = f"{describe(failure)}; {'started again in its pod' if failure.in_place else 'replaced'}"
        if failure.action is FailureAction.IGNORE:
            told.append(Event("Normal", failure.reason, f"{done} (ignored by a rule of faultTolerance.rules)"))
        else:
            told.append(Event("Warning", failure.reason, f"{done} ({budget.told(before, tolerance, now)})"))
    return tuple(told)
