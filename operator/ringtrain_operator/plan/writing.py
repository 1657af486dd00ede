"""Whether a pass has to write its status: each write costs the API server, and wakes up whoever watches the job."""

from datetime import datetime, timedelta

from ringtrain_operator.api.status import TERMINAL, JobPhase, TrainingJobStatus
from ringtrain_operator.plan.observed import Job
from ringtrain_operator.plan.result import Plan

CALM = timedelta(seconds=10)
"""Between writes that tell of progress only, while rounds are trained."""
BUSY = timedelta(seconds=2)
"""The same before, and while replicas are replaced: people look at who is ready."""
_PROGRESS = (
    "message",
    "ready",
    "round",
    "total_rounds",
    "progress",
    "loss",
    "communication",
    "last_checkpoint",
)
"""Fields on which no decision rests, or which the next report gives again."""


def is_due(job: Job, todo: Plan, now: datetime) -> bool:
    """What is not written now is found anew by the next pass, and written later."""
    if todo.status == job.status:
        return False
    if todo.status.phase in TERMINAL:
        # No pass may come after the one that sees its last pod end.
        return True
    if todo.deletes or todo.creates or todo.events or _without_progress(todo.status) != _without_progress(job.status):
        return True
    runs = todo.status.phase is JobPhase.RUNNING
    return job.written is None or now - job.written >= (CALM if runs else BUSY)


def _without_progress(status: TrainingJobStatus) -> TrainingJobStatus:
    conditions = tuple(condition.model_copy(update={"message": ""}) for condition in status.conditions)
    nothing = {field: TrainingJobStatus.model_fields[field].get_default() for field in _PROGRESS}
    return status.model_copy(update={**nothing, "conditions": conditions})
