"""Which pod stands for which replica: the rolls of members, of stale pods and of missing ones."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from ringtrain_operator.api.spec import FailureRule
from ringtrain_operator.api.status import Failure, Member
from ringtrain_operator.plan.failures import failure_of, has_ended
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Pod, PodPhase
from ringtrain_operator.plan.result import DeletePod, EndPod


def is_live(pod: Pod) -> bool:
    """Some container of it may run, now or later."""
    return pod.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def first_members(replicas: int, epoch: int) -> tuple[Member, ...]:
    return tuple(Member(index=index, epoch=epoch) for index in range(replicas))


def current_pods(members: Sequence[Member], pods: Sequence[Pod]) -> list[Pod]:
    """The pods that stand for a replica."""
    return [pod for member in members if (pod := pod_of(member, pods)) is not None]


def pod_of(member: Member, pods: Iterable[Pod]) -> Pod | None:
    """The pod of the member's index and epoch, whichever its UID."""
    return next((pod for pod in pods if (pod.index, pod.epoch) == (member.index, member.epoch)), None)


def failures(
    members: Sequence[Member],
    pods: Sequence[Pod],
    job: Job,
    health: NodeHealth,
    rules: Sequence[FailureRule],
    now: datetime,
) -> list[Failure]:
    """Those of the members' pods that happened since the last pass; `rules` say what is done about them."""
    found = (failure_of(member, pod_of(member, pods), job, health, rules, now) for member in members)
    return [failure for failure in found if failure is not None]


def replaced(members: Sequence[Member], failures: Sequence[Failure], epoch: int) -> tuple[Member, ...]:
    """Those that failed get pods of the raised `epoch`."""
    failed = {failure.replica for failure in failures}
    return tuple(Member(index=m.index, epoch=epoch) if m.index in failed else m for m in members)


def seen(members: Sequence[Member], pods: Sequence[Pod]) -> tuple[Member, ...]:
    """With the UIDs of pods that were not known yet."""
    return tuple(
        member.model_copy(update={"pod_uid": pod.uid})
        if member.pod_uid is None and (pod := pod_of(member, pods)) is not None
        else member
        for member in members
    )


def missing(members: Sequence[Member], pods: Sequence[Pod]) -> list[Member]:
    """Those that need a pod and may get it now: no other pod of their replica may still run."""
    held = {pod.index for pod in pods if is_live(pod)}
    return [member for member in members if member.index not in held and pod_of(member, pods) is None]


def stale_deletes(members: Sequence[Member], pods: Sequence[Pod], health: NodeHealth) -> list[DeletePod | EndPod]:
    """Pods that stand for no replica any more. The newest ended one of each replica is kept for its log."""
    current = {(member.index, member.epoch) for member in members}
    stale = [pod for pod in pods if (pod.index, pod.epoch) not in current]
    kept: dict[int, Pod] = {}
    for pod in sorted((pod for pod in stale if not is_live(pod)), key=lambda pod: pod.epoch):
        kept[pod.index] = pod
    deletes = (delete(pod, health) for pod in stale if kept.get(pod.index) is not pod)
    return [action for action in deletes if action is not None]


def delete(pod: Pod, health: NodeHealth) -> DeletePod | EndPod | None:
    """How to be rid of `pod`: by force when its node is lost, and keeping it for its log when only side-cars run in it.
    None when all is done and it is waited for."""
    if is_live(pod) and health.is_lost(pod):
        return DeletePod(pod.name, pod.uid, force=True)
    if pod.deleting:
        return None
    return EndPod(pod.name, pod.uid) if is_live(pod) and has_ended(pod) else DeletePod(pod.name, pod.uid)
