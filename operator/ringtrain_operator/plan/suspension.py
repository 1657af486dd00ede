"""A job that is to have no pods."""

from datetime import datetime

from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.conditions import RUNNING, SUSPENDED, find, with_condition
from ringtrain_operator.plan.result import Event


def suspended(status: TrainingJobStatus, waited_for: str, now: datetime) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status` of a job without members, and an event for each step. `waited_for`: which pods still have to end; empty
    when none is left."""
    phase = JobPhase.SUSPENDING if waited_for else JobPhase.SUSPENDED
    message = waited_for or "there are no pods until spec.suspend is set to false"
    events = (Event("Normal", phase.value, message),) if status.phase is not phase else ()
    status = status.model_copy(update={"phase": phase, "message": message})
    status = with_condition(status, SUSPENDED, not waited_for, phase.value, message, now)
    return with_condition(status, RUNNING, False, phase.value, message, now), events


def resumed(status: TrainingJobStatus, now: datetime) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status` of a job that is not to be suspended; and an event if it was."""
    if find(status, SUSPENDED) is None or status.phase not in (JobPhase.SUSPENDING, JobPhase.SUSPENDED):
        return status, ()
    message = "the job goes on from its newest checkpoint"
    status = with_condition(status, SUSPENDED, False, "Resumed", message, now)
    return status.model_copy(update={"phase": JobPhase.PENDING}), (Event("Normal", "Resumed", message),)
