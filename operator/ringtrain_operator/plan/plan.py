"""One pass: what is true of a job, and what follows from it.

The status of the plan is persisted before any of its actions, and says all that later passes need to know of them. So
an operator that dies between any two steps leaves nothing that the next pass would not finish or repeat harmlessly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ringtrain.contract.report import JobReport
from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import FAILURES_KEPT, TERMINAL, Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.api.validation import InvalidSpec
from ringtrain_operator.plan import budget, creation, finish, fixed, members, phase, progress
from ringtrain_operator.plan.acceptance import accept
from ringtrain_operator.plan.backoff import seconds_to_wait
from ringtrain_operator.plan.conditions import ACCEPTED, RUNNING, find, with_condition
from ringtrain_operator.plan.failures import describe
from ringtrain_operator.plan.in_place import new_failures
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.result import Event, Plan

_BUSY_SECONDS = 2.0
"""Between passes while members meet."""
_CALM_SECONDS = 5.0
"""Between passes while rounds are trained, or while a user has to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    job: Job
    observed: Observed
    pods: tuple[Pod, ...]
    """The job's own."""
    report: JobReport | None
    """None also when it is outdated."""
    health: NodeHealth
    now: datetime


def plan(job: Job, observed: Observed, now: datetime) -> Plan:
    """What to persist and to do. `now` is aware of its time zone; it is kept to whole seconds."""
    if job.deleting:
        return Plan(status=job.status)
    now = now.replace(microsecond=0)
    spec, invalid = _accepted(job)
    tolerance = spec.fault_tolerance if spec is not None else FaultTolerance()
    report = observed.report
    this = _Pass(
        job=job,
        observed=observed,
        pods=tuple(pod for pod in observed.pods if not pod.foreign),
        report=None if report is None or progress.is_outdated(job.status, report) else report,
        health=NodeHealth(observed.nodes, tolerance.node_loss_seconds, now),
        now=now,
    )
    if job.status.phase in TERMINAL:
        status, events = finish.changed_too_late(job)
        return replace(finish.clean_up(status, this.pods, this.health, now), events=events)
    newest = max((pod.epoch for pod in this.pods), default=0)
    if newest > job.status.epoch:
        # The status is not the newest, or was lost. In the first case it cannot be written, and nothing is done.
        return Plan(status=job.status.model_copy(update={"epoch": newest}), requeue_after=0)
    if observed.namespace_ending:
        return _without_namespace(this)
    if spec is None:
        return _without_spec(this, invalid)
    return _with_spec(this, spec)


def _accepted(job: Job) -> tuple[TrainingJobSpec | None, str]:
    try:
        return accept(job), ""
    except InvalidSpec as error:
        return None, str(error)


def _without_namespace(this: _Pass) -> Plan:
    """What ends now has not failed, and nothing can take its place. The job itself is about to go."""
    message = f"namespace {this.job.key.namespace} is being deleted: no pod is replaced any more"
    status = this.job.status
    if status.members:
        status = _judged(this, _counted(this, status), message)
    return Plan(status=status.model_copy(update={"message": message}))


def _without_spec(this: _Pass, invalid: str) -> Plan:
    """Nothing can be created. What runs already goes on, and may finish."""
    status = this.job.status.model_copy(update={"observed_generation": this.job.generation})
    before = find(status, ACCEPTED)
    status = with_condition(status, ACCEPTED, False, "InvalidSpec", invalid, this.now)
    is_new = before is None or before.message != invalid
    events = (Event("Warning", "InvalidSpec", invalid),) if is_new else ()
    if not status.members:
        status = status.model_copy(update={"phase": JobPhase.INVALID, "message": invalid})
        status = with_condition(status, RUNNING, False, JobPhase.INVALID.value, "", this.now)
        return Plan(status=status, events=events)
    status, notices = _followed(this, status)
    if finish.is_over(status, this.pods, this.report):
        return _success(this, status, None, (*events, *notices))
    message = f"pods that run go on, none is replaced until the spec is corrected: {invalid}"
    status = _judged(this, _counted(this, status), invalid).model_copy(update={"message": message})
    return Plan(status=status, events=(*events, *notices), requeue_after=_CALM_SECONDS)


def _with_spec(this: _Pass, spec: TrainingJobSpec) -> Plan:
    obstacle = creation.obstacle(this.job, spec, this.observed)
    status, started = _begun(this, spec, obstacle)
    if not status.members:
        return _held_up(this, status, obstacle)
    status, notices = _followed(this, status)
    known = status
    status, in_place = new_failures(this.job, status, this.report)
    if finish.is_over(status, this.pods, this.report):
        return _success(this, status, spec.trainer.rounds if spec.trainer is not None else None, notices)
    failures = members.failures(status.members, this.pods, this.job, this.health, this.now)
    status = status.model_copy(update={"failures": (*status.failures, *failures)[-FAILURES_KEPT:]})
    given_up = budget.judge(this.job, known, [*in_place, *failures], spec.fault_tolerance.max_restarts)
    if given_up is not None:
        event = Event("Warning", given_up.reason, given_up.message)
        status = finish.failed(status, given_up, this.now)
        return replace(finish.clean_up(status, this.pods, this.health, this.now), events=(*notices, event))
    status = _counted(this, _repaired(status, failures))
    status = _judged(this, status, obstacle)
    creates = creation.creations(this.job, spec, status, this.observed, this.pods, this.now) if not obstacle else ()
    spent = budget.spent(status, spec.fault_tolerance.max_restarts)
    repairs = [
        Event("Warning", failure.reason, f"{describe(failure)}; {_repair(failure)} ({spent})")
        for failure in (*in_place, *failures)
    ]
    return Plan(
        status=status,
        deletes=tuple(members.stale_deletes(status.members, this.pods, this.health)),
        creates=creates,
        events=(*started, *notices, *repairs, *_transition(this.job.status, status)),
        requeue_after=_pause(this, status),
    )


def _begun(this: _Pass, spec: TrainingJobSpec, obstacle: str) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """The status of an accepted job, with members as soon as nothing stands in their way."""
    status = this.job.status
    news: dict[str, Any] = {"observed_generation": this.job.generation, "replicas": spec.replicas}
    if spec.trainer is not None:
        news["total_rounds"] = spec.trainer.rounds
    events: tuple[Event, ...] = ()
    if status.members and status.observed_generation != this.job.generation:
        text = "the spec was changed: pods that run keep the one they were made from, new pods follow the changed one"
        events = (Event("Normal", "SpecChanged", text),)
    if not status.members and not obstacle:
        news["members"] = members.first_members(spec.replicas, status.epoch)
        news["started_with"] = fixed.started_with(spec)
        news["start_time"] = this.now
        events = (Event("Normal", "Started", f"creating {spec.replicas} pod{'s' * (spec.replicas != 1)}"),)
    status = progress.with_progress_text(status.model_copy(update=news))
    return with_condition(status, ACCEPTED, True, "SpecValid", "the spec is valid", this.now), events


def _held_up(this: _Pass, status: TrainingJobStatus, obstacle: str) -> Plan:
    """Before the first pod."""
    status = status.model_copy(update={"phase": JobPhase.PENDING, "message": obstacle})
    status = with_condition(status, RUNNING, False, JobPhase.PENDING.value, obstacle, this.now)
    is_new = obstacle != this.job.status.message
    events = (Event("Warning", "Waiting", obstacle),) if is_new else ()
    return Plan(status=status, events=events, requeue_after=_CALM_SECONDS)


def _followed(this: _Pass, status: TrainingJobStatus) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    return progress.follow(status, this.report) if this.report is not None else (status, ())


def _success(this: _Pass, status: TrainingJobStatus, total_rounds: int | None, events: tuple[Event, ...]) -> Plan:
    status = finish.succeeded(this.job, status, this.pods, total_rounds, this.now)
    event = Event("Normal", "Succeeded", status.message)
    return replace(finish.clean_up(status, this.pods, this.health, this.now), events=(*events, event))


def _repaired(status: TrainingJobStatus, failures: Sequence[Failure]) -> TrainingJobStatus:
    """With one raised epoch for the new pods of all replicas that failed."""
    if not failures:
        return status
    epoch = status.epoch + 1
    return status.model_copy(
        update={
            "epoch": epoch,
            "members": members.replaced(status.members, failures, epoch),
            "restarts": status.restarts + len(failures),
            "counted_restarts": status.counted_restarts + sum(failure.counted for failure in failures),
        }
    )


def _counted(this: _Pass, status: TrainingJobStatus) -> TrainingJobStatus:
    """With what its pods show now."""
    ready = sum(pod.ready for pod in members.current_pods(status.members, this.pods))
    return status.model_copy(update={"ready": ready, "members": members.seen(status.members, this.pods)})


def _judged(this: _Pass, status: TrainingJobStatus, obstacle: str) -> TrainingJobStatus:
    """With its phase, and a sentence on it."""
    status = status.model_copy(update={"phase": phase.phase_of(status, this.pods, this.report)})
    message = phase.message_of(status, this.pods, obstacle or this.observed.refused)
    status = status.model_copy(update={"message": message})
    runs = status.phase is JobPhase.RUNNING
    return with_condition(status, RUNNING, runs, "Training" if runs else status.phase.value, message, this.now)


def _repair(failure: Failure) -> str:
    return "started again in its pod" if failure.in_place else "replaced"


def _transition(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Event, ...]:
    if after.phase is JobPhase.RUNNING and before.phase is not JobPhase.RUNNING:
        return (Event("Normal", "Training", after.message),)
    return ()


def _pause(this: _Pass, status: TrainingJobStatus) -> float:
    """Seconds to the next pass, which comes in time for every deadline."""
    busy = status.phase in (JobPhase.STARTING, JobPhase.RESTARTING)
    doubtful = (this.health.seconds_left(pod) for pod in this.pods if members.is_live(pod))
    held = (seconds_to_wait(member.index, status.failures, this.now) for member in status.members)
    deadlines = [seconds for seconds in (*doubtful, *held) if seconds]
    return min([_BUSY_SECONDS if busy else _CALM_SECONDS, *(max(1.0, seconds) for seconds in deadlines)])
