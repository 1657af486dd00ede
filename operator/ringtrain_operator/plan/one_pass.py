"""What one pass sees of a job, and what it judges from that."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ringtrain.contract.report import JobReport
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan import deadlines, members, phase, progress
from ringtrain_operator.plan.backoff import seconds_to_wait
from ringtrain_operator.plan.conditions import RUNNING, with_condition
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.result import Event

_BUSY_SECONDS = 2.0
"""Between passes while members meet."""
CALM_SECONDS = 5.0
"""Between passes while rounds are trained, or while a user has to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    job: Job
    observed: Observed
    pods: tuple[Pod, ...]
    """The job's own that stand for a replica, or stood for one."""
    holders: tuple[Pod, ...]
    """Its own that only hold a place."""
    report: JobReport | None
    """None also when it is outdated."""
    health: NodeHealth
    now: datetime


def followed(this: Pass, status: TrainingJobStatus) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    return progress.follow(status, this.report) if this.report is not None else (status, ())


def counted(this: Pass, status: TrainingJobStatus) -> TrainingJobStatus:
    """With what its pods show now."""
    ready = sum(pod.ready for pod in members.current_pods(status.members, this.pods))
    return status.model_copy(update={"ready": ready, "members": members.seen(status.members, this.pods)})


def judged(this: Pass, status: TrainingJobStatus, obstacle: str) -> TrainingJobStatus:
    """With its phase, and a sentence on it."""
    status = status.model_copy(update={"phase": phase.phase_of(status, this.pods, this.report)})
    message = phase.message_of(status, this.pods, obstacle or this.observed.refused)
    status = status.model_copy(update={"message": message})
    status = deadlines.waits(status, not phase.all_run(status, this.pods), this.now)
    runs = status.phase is JobPhase.RUNNING
    return with_condition(status, RUNNING, runs, "Training" if runs else status.phase.value, message, this.now)


def pause(this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus) -> float:
    """Seconds to the next pass."""
    busy = status.phase in (JobPhase.STARTING, JobPhase.RESTARTING)
    doubtful = (this.health.seconds_left(pod) for pod in this.pods if members.is_live(pod))
    held = (seconds_to_wait(member.index, status.failures, this.now) for member in status.members)
    deadline = deadlines.seconds_left(spec, status, this.now)
    return in_time(_BUSY_SECONDS if busy else CALM_SECONDS, [*doubtful, *held, deadline])


def in_time(longest: float, left: Iterable[float | None]) -> float:
    """Seconds to the next pass, which comes in time for whatever is due in `left` seconds."""
    return min([longest, *(max(1.0, seconds) for seconds in left if seconds)])
