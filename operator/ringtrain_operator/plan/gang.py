"""All replicas that a job lacks are created at once, when all of them fit; until then, none is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.conditions import SCHEDULABLE, find, with_condition
from ringtrain_operator.plan.creation import due
from ringtrain_operator.plan.elastic import has_place
from ringtrain_operator.plan.members import current_pods, missing
from ringtrain_operator.plan.need import need_of
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.pods import pod as manifest
from ringtrain_operator.plan.result import Event
from ringtrain_operator.plan.room import fitting, shortage
from ringtrain_operator.plan.waiting import UNSCHEDULABLE

HALF_KEPT = timedelta(seconds=60)
"""So long a job whose first pods did not all find a node, against what was seen, keeps those that did."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Not all pods that a job lacks fit, or nobody has looked."""

    fit: int
    """How many would."""
    reason: str = ""
    message: str = ""


def lack(
    job: Job, spec: TrainingJobSpec, status: TrainingJobStatus, observed: Observed, pods: Sequence[Pod], now: datetime
) -> Lack | None:
    """Why the members of `status` that have no pod may not get any yet; None when they may. `pods` are the job's own;
    where `observed` has no room, it has to be looked at."""
    if spec.scheduling.gang != "Operator" or not due(status, pods, now):
        return None
    if observed.room is None:
        return Lack(0)
    if observed.room.hidden:
        return Lack(0, "RoomUnknown", observed.room.hidden)
    absent = missing(status.members, pods)
    off = [node.name for node in status.excluded_nodes]
    need = need_of(manifest(job, spec, absent[0].index, absent[0].epoch, off))
    beside = {pod.node for pod in current_pods(status.members, pods) if pod.node is not None and has_place(pod)}
    fit = fitting(need, len(absent), observed.room, beside)
    if fit == len(absent):
        return None
    return Lack(fit, "NoRoom", f"waiting for room for all at once: {shortage(need, len(absent), fit, observed.room)}")


def told(
    spec: TrainingJobSpec, status: TrainingJobStatus, found: Lack | None, observed: Observed, now: datetime
) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status` with the condition Schedulable, and an event when it becomes false. `found` is what `lack` gave."""
    if spec.scheduling.gang != "Operator" or observed.room is None:
        return status, ()
    if found is None:
        return with_condition(status, SCHEDULABLE, True, "RoomFound", "all pods found room at once", now), ()
    before = find(status, SCHEDULABLE)
    events = (Event("Warning", found.reason, found.message),) if before is None or before.reason != found.reason else ()
    return with_condition(status, SCHEDULABLE, False, found.reason, found.message, now), events


def is_half(spec: TrainingJobSpec, status: TrainingJobStatus, pods: Sequence[Pod], now: datetime) -> bool:
    """Some of the job's first pods hold a node, and others find none: somebody else took it in between."""
    members, current = status.members, current_pods(status.members, pods)
    placed = [pod for pod in current if has_place(pod)]
    if spec.scheduling.gang != "Operator" or any(member.epoch != status.epoch for member in members):
        return False
    if not placed or len(placed) == len(members):
        return False
    if spec.elastic is not None and len(placed) >= spec.elastic.min_replicas:
        return False
    found_none = all(pod.waiting_reason == UNSCHEDULABLE for pod in current if not has_place(pod))
    return found_none and now - max(pod.created for pod in current) >= HALF_KEPT
