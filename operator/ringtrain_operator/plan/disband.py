"""The end of all pods together: they save a checkpoint within their grace and end, before any other may begin.

So no two pods ever meet that were told otherwise, and what was trained until then is on the volume. The pass that
disbands them never goes on by itself: only a later one, which sees what is after its write, knows that none is left.
"""

from collections.abc import Sequence

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.members import is_live, stale_deletes
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Pod
from ringtrain_operator.plan.result import DeletePod, EndPod
from ringtrain_operator.plan.waiting import name


def disbanded(status: TrainingJobStatus) -> TrainingJobStatus:
    """No pod stands for a replica any more; those that come after have a higher epoch."""
    return status.model_copy(update={"members": (), "epoch": status.epoch + 1, "ready": 0, "incident": None})


def is_lost(status: TrainingJobStatus, pods: Sequence[Pod]) -> bool:
    """Pods have begun that `status`, which has no members, does not know of: what it knew was lost."""
    return any(pod.epoch == status.epoch for pod in pods if is_live(pod))


def leftovers(status: TrainingJobStatus, pods: Sequence[Pod]) -> list[Pod]:
    """What has to end before a job without members may begin. Where its status was lost, its pods are taken back."""
    return [] if is_lost(status, pods) else [pod for pod in pods if is_live(pod)]


def deletes(status: TrainingJobStatus, pods: Sequence[Pod], health: NodeHealth) -> tuple[DeletePod | EndPod, ...]:
    """Of leftover pods. The newest ended one of each replica is kept for its log."""
    return () if is_lost(status, pods) else tuple(stale_deletes((), pods, health))


def waited_for(pods: Sequence[Pod]) -> str:
    """On leftover pods, in words; empty without any."""
    return f"{name(sorted({pod.index for pod in pods}))} must save and end first" if pods else ""
