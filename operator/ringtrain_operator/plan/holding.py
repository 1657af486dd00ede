"""Pods that train nothing: each holds a place for a replica, with its resources, image and volumes.

Some are spares, for replicas that may be lost; in a job that is reduced, they are for those that it lacks.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan import pods as manifests
from ringtrain_operator.plan.elastic import has_place, missing
from ringtrain_operator.plan.members import current_pods, delete, is_live
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Pod
from ringtrain_operator.plan.result import Create, DeletePod, EndPod
from ringtrain_operator.plan.waiting import UNSCHEDULABLE

ENDED_KEPT = timedelta(seconds=60)
"""From its creation an ended one stays for so long: one that ends at once comes again this rarely."""


def creations(
    job: Job,
    spec: TrainingJobSpec,
    status: TrainingJobStatus,
    pods: Sequence[Pod],
    holders: Sequence[Pod],
    now: datetime,
) -> tuple[Create, ...]:
    """None may take the place of a replica: they come when all of those, which `pods` stand for, have theirs."""
    first = len(status.members)
    if sum(map(has_place, current_pods(status.members, pods))) < first:
        return ()
    held = {holder.index for holder in holders}
    off = [node.name for node in status.excluded_nodes]
    return tuple(
        Create(manifests.holder(job, spec, index, status.epoch, off))
        for index in range(first, first + _wanted(spec, status, now))
        if index not in held
    )


def deletes(
    job: Job,
    spec: TrainingJobSpec,
    status: TrainingJobStatus,
    pods: Sequence[Pod],
    holders: Sequence[Pod],
    health: NodeHealth,
    now: datetime,
) -> tuple[DeletePod | EndPod, ...]:
    """Of those that are too many, of an older spec, lost or ended, or whose place a replica needs."""
    given = _given(current_pods(status.members, pods), holders)
    last = len(status.members) + _wanted(spec, status, now)
    useless = [h for h in holders if h.index >= last or h in given or _is_useless(h, job, health, now)]
    return all_deletes(useless, health)


def all_deletes(holders: Sequence[Pod], health: NodeHealth) -> tuple[DeletePod | EndPod, ...]:
    return tuple(action for holder in holders if (action := delete(holder, health)) is not None)


def _wanted(spec: TrainingJobSpec, status: TrainingJobStatus, now: datetime) -> int:
    return missing(spec, status, now) if status.reduced is not None else spec.spare_replicas


def _given(pods: Sequence[Pod], holders: Sequence[Pod]) -> list[Pod]:
    """As many as replicas wait for a node; no more while some are about to go."""
    waiting = sum(pod.waiting_reason == UNSCHEDULABLE and not has_place(pod) for pod in pods)
    going = sum(holder.deleting for holder in holders)
    return [holder for holder in holders if has_place(holder)][: max(0, waiting - going)]


def _is_useless(holder: Pod, job: Job, health: NodeHealth, now: datetime) -> bool:
    if holder.spec_generation != job.generation or health.is_lost(holder):
        return True
    return not is_live(holder) and now - holder.created >= ENDED_KEPT
