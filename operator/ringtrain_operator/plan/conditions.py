"""The conditions of a job, by the conventions of metav1.Condition."""

from datetime import datetime
from typing import Literal

from ringtrain_operator.api.status import Condition, TrainingJobStatus

ACCEPTED = "Accepted"
SUSPENDED = "Suspended"
SCHEDULABLE = "Schedulable"
RUNNING = "Running"
COMPLETE = "Complete"
FAILED = "Failed"


def with_condition(
    status: TrainingJobStatus, kind: str, holds: bool, reason: str, message: str, now: datetime
) -> TrainingJobStatus:
    """`status` with the condition `kind` set; its transition time is kept while its truth does not change."""
    truth: Literal["True", "False"] = "True" if holds else "False"
    before = find(status, kind)
    condition = Condition(
        type=kind,
        status=truth,
        observed_generation=status.observed_generation,
        last_transition_time=before.last_transition_time if before and before.status == truth else now,
        reason=reason,
        message=message,
    )
    others = tuple(each for each in status.conditions if each.type != kind)
    conditions = sorted((*others, condition), key=lambda each: _ORDER.index(each.type))
    return status.model_copy(update={"conditions": tuple(conditions)})


def find(status: TrainingJobStatus, kind: str) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == kind), None)


_ORDER = (ACCEPTED, SUSPENDED, SCHEDULABLE, RUNNING, COMPLETE, FAILED)
