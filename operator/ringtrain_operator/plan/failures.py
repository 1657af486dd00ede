"""Whether the pod that stands for a replica has failed, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from ringtrain.contract import exit_codes
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.report import TerminationMessage
from ringtrain_operator.api.spec import FailureAction, FailureRule
from ringtrain_operator.api.status import Failure, Member
from ringtrain_operator.plan.failure_policy import (
    CONTAINER_STATUS_UNKNOWN,
    DISRUPTION_TARGET,
    EVICTED_OVER_LIMIT,
    POD_DELETED,
    SPEC_CHANGED,
    decide,
)
from ringtrain_operator.plan.names import pod_name
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Pod, PodPhase

NODE_LOST = "NodeLost"

_CLUSTERS_DOING = frozenset(
    {
        "Evicted",
        "Preempting",
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
        "NodeAffinity",
        "UnexpectedAdmissionError",
        "PreemptionByScheduler",
        "EvictionByEvictionAPI",
        "DeletionByTaintManager",
        "DeletionByPodGC",
        "TerminationByKubelet",
    }
)
"""Reasons of pods that the cluster ended for its own needs."""
_REFUSED_BY_NODE = "OutOf"
"""OutOfcpu, OutOfpods...: the node had no room after all."""
_LOST_TRACK = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of containers that were gone when their node came up again: nobody knows how they ended."""
_EXCEEDED = "exceed"
"""In the message of an eviction that the pod earned: it used more than its own limits."""
_SAYS_NOTHING = frozenset({"", "Error", "Completed"})
LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class _Cause:
    reason: str
    message: str = ""
    disrupted: bool = False
    """The cluster ended the pod for needs of its own."""
    exit_code: int | None = None
    rank: int | None = None
    generation: str | None = None


def has_ended(pod: Pod) -> bool:
    """The training container ended; beside a side-car the pod itself may still run."""
    return pod.exit_code is not None or pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def is_done(pod: Pod) -> bool:
    """It ended well, which by contract means that the whole job is done."""
    return pod.exit_code == ExitCode.DONE or (pod.exit_code is None and pod.phase is PodPhase.SUCCEEDED)


def failure_of(
    member: Member, pod: Pod | None, job: Job, health: NodeHealth, rules: Sequence[FailureRule], now: datetime
) -> Failure | None:
    """`pod` is the one of the member's index and epoch. None when there is nothing to act on."""
    cause = _cause(member, pod, job.generation, health)
    if cause is None:
        return None
    conditions = (pod.conditions if pod is not None else frozenset()) - {DISRUPTION_TARGET}
    if cause.disrupted:
        conditions |= {DISRUPTION_TARGET}
    action = decide(rules, cause.reason, cause.exit_code, conditions)
    return Failure(
        time=now,
        happened=_happened(pod, health) if pod is not None else None,
        replica=member.index,
        rank=cause.rank,
        pod=pod_name(job.key.name, member.index, member.epoch),
        node=pod.node if pod is not None else None,
        reason=cause.reason,
        exit_code=cause.exit_code,
        message=cause.message[:LONGEST_MESSAGE],
        action=action,
        counted=action is FailureAction.RESTART,
        generation=cause.generation or job.status.generation,
    )


def termination_message(text: str) -> TerminationMessage | None:
    """None when no agent wrote `text`."""
    try:
        return TerminationMessage.model_validate_json(text)
    except ValidationError:
        return None


def who_failed(failure: Failure) -> str:
    """`rank 3`, or `replica 1` where the rank is not known."""
    return f"rank {failure.rank}" if failure.rank is not None else f"replica {failure.replica}"


def describe(failure: Failure) -> str:
    """`rank 3 on pod x, node y: Hang: ...`."""
    where = f"pod {failure.pod}" + (f", node {failure.node}" if failure.node else "")
    return f"{who_failed(failure)} on {where}: {failure.reason}" + (f": {failure.message}" if failure.message else "")


def _happened(pod: Pod, health: NodeHealth) -> datetime | None:
    return pod.ended if has_ended(pod) else health.unready_since(pod)


def _cause(member: Member, pod: Pod | None, spec_generation: int, health: NodeHealth) -> _Cause | None:
    if pod is None or (member.pod_uid is not None and pod.uid != member.pod_uid):
        return _Cause(POD_DELETED, "the pod is gone") if member.pod_uid is not None else None
    if has_ended(pod):
        return None if is_done(pod) else _cause_of_end(pod)
    if health.is_lost(pod) or (pod.deleting and health.is_in_doubt(pod)):
        return _Cause(NODE_LOST, "the node is gone or not ready", disrupted=True)
    if pod.deleting:
        reason = pod.reason if pod.reason in _CLUSTERS_DOING else POD_DELETED
        return _Cause(reason, pod.message or "the pod was deleted", disrupted=_is_disrupted(pod))
    if pod.phase is PodPhase.PENDING and pod.spec_generation is not None and pod.spec_generation < spec_generation:
        # What keeps it from running may be what was corrected.
        return _Cause(SPEC_CHANGED, "the spec was changed before it ran")
    return None


def _cause_of_end(pod: Pod) -> _Cause:
    said = termination_message(pod.message)
    code = pod.exit_code if pod.exit_code is not None else (said.exit_code if said else None)
    cause = _named_cause(pod, code, said)
    if said is None:
        return replace(cause, message=pod.message.strip(), exit_code=code)
    return replace(cause, message=said.message, exit_code=code, rank=said.rank, generation=said.generation)


def _named_cause(pod: Pod, code: int | None, said: TerminationMessage | None) -> _Cause:
    if pod.reason in _CLUSTERS_DOING and _EXCEEDED in pod.message:
        return _Cause(EVICTED_OVER_LIMIT)
    if pod.reason in _CLUSTERS_DOING or pod.reason.startswith(_REFUSED_BY_NODE):
        return _Cause(pod.reason, disrupted=True)
    if pod.reason in _LOST_TRACK:
        return _Cause(CONTAINER_STATUS_UNKNOWN)
    return _Cause(_reason(pod, code, said), disrupted=_is_disrupted(pod))


def _is_disrupted(pod: Pod) -> bool:
    return pod.reason in _CLUSTERS_DOING or DISRUPTION_TARGET in pod.conditions


def _reason(pod: Pod, code: int | None, said: TerminationMessage | None) -> str:
    if pod.reason == "OOMKilled":
        return exit_codes.reason(ExitCode.OUT_OF_MEMORY)
    if said is not None:
        return said.reason
    if pod.reason not in _SAYS_NOTHING:
        return pod.reason
    return exit_codes.reason(code) if code is not None else "PodFailed"
