"""One pass: what is true of a job, and what follows from it.

The status of the plan is persisted before any of its actions, and says all that later passes need to know of them. So
an operator that dies between any two steps leaves nothing that the next pass would not finish or repeat harmlessly.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import FAILURES_KEPT, TERMINAL, JobPhase, TrainingJobStatus
from ringtrain_operator.api.validation import InvalidSpec
from ringtrain_operator.plan import (
    budget,
    creation,
    deadlines,
    disband,
    elastic,
    exclusion,
    finish,
    fixed,
    gang,
    holding,
    members,
    pod_group,
    progress,
    repair,
    suspension,
)
from ringtrain_operator.plan.acceptance import accept, is_ours
from ringtrain_operator.plan.conditions import ACCEPTED, RUNNING, find, with_condition
from ringtrain_operator.plan.defaults import inherited
from ringtrain_operator.plan.failures import termination_message
from ringtrain_operator.plan.in_place import new_failures
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.one_pass import CALM_SECONDS, Pass, counted, followed, in_time, judged, pause
from ringtrain_operator.plan.outcome import cleaned_up, failure, success
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Event, Plan


def plan(job: Job, observed: Observed, now: datetime) -> Plan:
    """What to persist and to do. `now` is aware of its time zone; it is kept to whole seconds."""
    if job.deleting or not is_ours(job):
        return Plan(status=job.status)
    now = now.replace(microsecond=0)
    spec, invalid = _accepted(job)
    tolerance = spec.fault_tolerance if spec is not None else FaultTolerance()
    report = observed.report
    own = [pod for pod in observed.pods if not pod.foreign]
    this = Pass(
        job=job,
        observed=observed,
        pods=tuple(pod for pod in own if not pod.holding),
        holders=tuple(pod for pod in own if pod.holding),
        report=None if report is None or progress.is_outdated(job.status, report) else report,
        health=NodeHealth(observed.nodes, tolerance.node_loss_seconds, now),
        now=now,
    )
    if job.status.phase in TERMINAL:
        status, events = finish.changed_too_late(job)
        return cleaned_up(this, status, spec, events)
    newest = max((pod.epoch for pod in own), default=0)
    if newest > job.status.epoch:
        # The status is not the newest, or was lost. In the first case it cannot be written, and nothing is done.
        return Plan(status=job.status.model_copy(update={"epoch": newest}), requeue_after=0)
    if observed.namespace_ending:
        return _without_namespace(this)
    if spec is None:
        return _without_spec(this, invalid)
    status = _begun(this, spec)
    return _with_members(this, spec, status, ()) if status.members else _without_members(this, spec, status, ())


def _accepted(job: Job) -> tuple[TrainingJobSpec | None, str]:
    try:
        return accept(job), ""
    except InvalidSpec as error:
        return None, str(error)


def _without_namespace(this: Pass) -> Plan:
    """What ends now has not failed, and nothing can take its place. The job itself is about to go."""
    message = f"namespace {this.job.key.namespace} is being deleted: no pod is replaced any more"
    status = this.job.status
    if status.members:
        status = judged(this, counted(this, status), message)
    return Plan(status=status.model_copy(update={"message": message}))


def _without_spec(this: Pass, invalid: str) -> Plan:
    """Nothing can be created. What runs already goes on, and may finish."""
    status = this.job.status.model_copy(update={"observed_generation": this.job.generation})
    before = find(status, ACCEPTED)
    status = with_condition(status, ACCEPTED, False, "InvalidSpec", invalid, this.now)
    is_new = before is None or before.message != invalid
    events = (Event("Warning", "InvalidSpec", invalid),) if is_new else ()
    if not status.members:
        status = deadlines.waits(status, False, this.now)
        status = status.model_copy(update={"phase": JobPhase.INVALID, "message": invalid})
        status = with_condition(status, RUNNING, False, JobPhase.INVALID.value, "", this.now)
        return Plan(status=status, deletes=_ending(this, status), events=events)
    status, notices = followed(this, status)
    if finish.is_over(status, this.pods, this.report):
        return success(this, status, None, (*events, *notices))
    message = f"pods that run go on, none is replaced until the spec is corrected: {invalid}"
    status = judged(this, counted(this, status), invalid).model_copy(update={"message": message})
    return Plan(status=status, events=(*events, *notices), requeue_after=CALM_SECONDS)


def _begun(this: Pass, spec: TrainingJobSpec) -> TrainingJobStatus:
    """The status of an accepted job."""
    news: dict[str, Any] = {"observed_generation": this.job.generation, "replicas": spec.replicas}
    if spec.trainer is not None:
        news["total_rounds"] = spec.trainer.rounds
    status = progress.with_progress_text(this.job.status.model_copy(update=news))
    return with_condition(status, ACCEPTED, True, "SpecValid", "the spec is valid", this.now)


def _without_members(this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, events: tuple[Event, ...]) -> Plan:
    """Before the first pods, while the job is suspended, and between the end of all pods and the next ones."""
    status = progress.with_last_words(status, filter(None, (termination_message(pod.message) for pod in this.pods)))
    if spec.suspend and disband.is_lost(status, this.pods):
        return _disbanded(this, spec, status, events)
    leftovers = _leftovers(this, status)
    if spec.suspend:
        status, told = suspension.suspended(status, disband.waited_for(leftovers), this.now)
        pause = CALM_SECONDS if leftovers else None
        return Plan(status=status, deletes=_ending(this, status), events=(*events, *told), requeue_after=pause)
    status, told = suspension.resumed(status, this.now)
    obstacle = creation.obstacle(this.job, spec, this.observed)
    if obstacle and obstacle != this.job.status.message:
        told = (*told, Event("Warning", "Waiting", obstacle))
    if obstacle or leftovers:
        return _held_up(this, spec, status, obstacle or disband.waited_for(leftovers), (*events, *told))
    status, size = elastic.settled(spec, status), elastic.size(spec, status)
    formed = members.first_members(size, status.epoch)
    lack = _lack(this, spec, status.model_copy(update={"members": formed}))
    if lack is not None:
        if this.observed.room is None:
            return Plan(status=this.job.status, wants_room=True)
        smaller = elastic.smaller_size(spec, status, lack.fit, this.now)
        if smaller is None:
            status, why = gang.told(spec, status, lack, this.observed, this.now)
            return _held_up(this, spec, status, lack.message, (*events, *told, *why))
        status, reduced = elastic.begun_smaller(spec, status, smaller, lack.message, this.now)
        size, formed, told = smaller, members.first_members(smaller, status.epoch), (*told, reduced)
    news = {"members": formed, "started_with": fixed.started_with(spec), "inherited": inherited(this.job)}
    status = deadlines.started(status.model_copy(update=news), this.now)
    started = Event("Normal", "Started", f"creating {size} pod{'s' * (size != 1)}")
    return _with_members(this, spec, status, (*events, *told, started))


def _disbanded(this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, events: tuple[Event, ...]) -> Plan:
    """All pods end, for a suspension or another number of replicas; what follows is for the next pass."""
    status = disband.disbanded(status)
    waited_for = disband.waited_for(_leftovers(this, status)) or "all pods must save and end first"
    if spec.suspend:
        status = deadlines.suspended(status, this.now).model_copy(update={"reduced": None})
        status, told = suspension.suspended(status, waited_for, this.now)
        return Plan(status=status, deletes=_ending(this, status), events=(*events, *told), requeue_after=0)
    status = status.model_copy(update={"phase": JobPhase.RESTARTING})
    return replace(_held_up(this, spec, status, waited_for, events), requeue_after=0)


def _held_up(
    this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, message: str, events: tuple[Event, ...]
) -> Plan:
    """No pod may begin yet; `message` says why."""
    current = JobPhase.RESTARTING if status.phase is JobPhase.RESTARTING else JobPhase.PENDING
    status = deadlines.waits(status.model_copy(update={"phase": current, "message": message}), True, this.now)
    status = with_condition(status, RUNNING, False, current.value, message, this.now)
    given_up = deadlines.exceeded(spec, status, this.now)
    if given_up is not None:
        return failure(this, spec, status, given_up, events)
    return Plan(
        status=status,
        deletes=_ending(this, status),
        events=events,
        requeue_after=in_time(CALM_SECONDS, [deadlines.seconds_left(spec, status, this.now)]),
    )


def _with_members(this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, events: tuple[Event, ...]) -> Plan:
    """While pods stand for the replicas."""
    tolerance = spec.fault_tolerance
    status, notices = followed(this, status)
    known = status
    status, in_place = new_failures(this.job, status, this.pods, this.report, tolerance.rules)
    if finish.is_over(status, this.pods, this.report):
        status = budget.charged(status, in_place, tolerance, this.now)
        return success(this, status, spec, (*events, *notices))
    if spec.suspend:
        return _disbanded(this, spec, status, (*events, *notices))
    if elastic.is_other(spec, status):
        scaled = Event("Normal", "Scaled", elastic.told(status, elastic.size(spec, status)))
        return _disbanded(this, spec, elastic.settled(spec, status), (*events, *notices, scaled))
    gone = members.failures(status.members, this.pods, this.job, this.health, tolerance.rules, this.now)
    status = status.model_copy(update={"failures": (*status.failures, *gone)[-FAILURES_KEPT:]})
    failures = [*in_place, *gone]
    given_up = budget.judge(this.job, known, failures, tolerance, this.now)
    if given_up is not None:
        return failure(this, spec, status, given_up, (*events, *notices))
    status, exclusions = exclusion.updated(status, tolerance, this.now)
    status = counted(this, repair.repaired(status, failures, tolerance, this.now))
    status = pod_group.in_group(this.job, spec, status, this.pods)
    obstacle = creation.obstacle(this.job, spec, this.observed)
    lack = _lack(this, spec, status) if not obstacle else None
    if lack is not None and this.observed.room is None:
        return Plan(status=this.job.status, wants_room=True)
    status, why = gang.told(spec, status, lack, this.observed, this.now)
    status, queue = pod_group.queued(spec, status, this.pods, this.now)
    status = judged(this, status, lack.message if lack is not None else obstacle)
    repairs = repair.events(known, failures, tolerance, this.now)
    events = (*events, *_spec_changed(this), *notices, *repairs, *exclusions, *why, *queue)
    given_up = deadlines.exceeded(spec, status, this.now)
    if given_up is not None:
        return failure(this, spec, status, given_up, events)
    new_size = elastic.new_size(spec, status, this.pods, this.holders, this.now)
    # Failures of this pass are persisted first: an epoch is raised for one thing at a time.
    if new_size is None and lack is not None and not failures:
        placed = sum(map(elastic.has_place, members.current_pods(status.members, this.pods)))
        new_size = elastic.smaller_size(spec, status, placed + lack.fit, this.now)
    if new_size is not None:
        reason = lack.message if lack is not None else ""
        status, told = elastic.resized(spec, status, this.pods, new_size, this.now, reason)
        return _disbanded(this, spec, status, (*events, told))
    if gang.is_half(spec, status, this.pods, this.now):
        text = f"not all pods found a node after all: all end, and wait for room at once; {status.message}"
        return _disbanded(this, spec, status, (*events, Event("Warning", "GangBroken", text)))
    return Plan(
        status=status,
        deletes=(
            *members.stale_deletes(status.members, this.pods, this.health),
            *holding.deletes(this.job, spec, status, this.pods, this.holders, this.health, this.now),
        ),
        creates=_creations(this, spec, status, lack) if not obstacle else (),
        events=(*events, *_transition(this.job.status, status)),
        requeue_after=pause(this, spec, status),
    )


def _leftovers(this: Pass, status: TrainingJobStatus) -> list[Pod]:
    """What has to end before a job without members may begin."""
    return [*disband.leftovers(status, this.pods), *filter(members.is_live, this.holders)]


def _ending(this: Pass, status: TrainingJobStatus) -> tuple[DeletePod | EndPod, ...]:
    """Of all pods of a job without members."""
    return (*disband.deletes(status, this.pods, this.health), *holding.all_deletes(this.holders, this.health))


def _lack(this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus) -> gang.Lack | None:
    told = elastic.at_size(spec, len(status.members))
    return gang.lack(this.job, told, status, this.observed, this.pods, this.now)


def _creations(
    this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, lack: gang.Lack | None
) -> tuple[Create, ...]:
    told = elastic.at_size(spec, len(status.members))
    replicas = creation.due(status, this.pods, this.now) if lack is None else []
    return (
        *creation.creations(this.job, told, status, this.observed, replicas),
        *holding.creations(this.job, spec, status, this.pods, this.holders, this.now),
    )


def _spec_changed(this: Pass) -> tuple[Event, ...]:
    before = this.job.status
    if not before.members or before.observed_generation == this.job.generation:
        return ()
    text = "the spec was changed: pods that run keep the one they were made from, new pods follow the changed one"
    return (Event("Normal", "SpecChanged", text),)


def _transition(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[Event, ...]:
    if after.phase is JobPhase.RUNNING and before.phase is not JobPhase.RUNNING:
        return (Event("Normal", "Training", after.message),)
    return ()
