"""Kubernetes objects, as the API gives them, into what a pass sees."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ringtrain_operator.api.pruning import pruned
from ringtrain_operator.api.reserved import CONTAINER, KUEUE_MANAGED
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.names import ANNOTATION_SPEC, LABEL_HOLDING
from ringtrain_operator.plan.observed import Job, JobKey, Node, Pod, PodPhase

Object = Mapping[str, Any]

_NOT_A_REASON = frozenset({"", "ContainerCreating", "PodInitializing"})


def job(raw: Object) -> Job:
    """Raises pydantic's ValidationError when the stored status is not one that an operator writes."""
    metadata = raw["metadata"]
    return Job(
        key=key(raw),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=raw.get("spec") or {},
        status=_status(raw.get("status") or {}),
        created=_time(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
    )


def _status(raw: Object) -> TrainingJobStatus:
    try:
        return TrainingJobStatus.model_validate(raw)
    except ValidationError:
        # While the operator is upgraded, or set back, another release may have written it.
        return TrainingJobStatus.model_validate(pruned(TrainingJobStatus, raw))


def key(raw: Object) -> JobKey:
    return JobKey(raw["metadata"]["namespace"], raw["metadata"]["name"])


def owner(raw: Object) -> str:
    """UID of what controls `raw`; empty when nothing does. An earlier job of the same name has another one."""
    owners = raw["metadata"].get("ownerReferences") or []
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def pod(raw: Object, job_uid: str) -> Pod | None:
    """None when the pod is not named as a replica is: JOB-INDEX-EPOCH."""
    metadata, status = raw["metadata"], _within(raw, "status")
    _, *numbers = metadata["name"].rsplit("-", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return None
    phase = PodPhase(status.get("phase", PodPhase.PENDING))
    deleting = "deletionTimestamp" in metadata
    ended = _ended(status, phase)
    disruption = _condition(status, "DisruptionTarget", "True")
    waiting = _waiting(status) if phase is PodPhase.PENDING else {}
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        index=int(numbers[0]),
        epoch=int(numbers[1]),
        phase=phase,
        created=_time(metadata["creationTimestamp"]),
        # The kubelet leaves Ready at True when it ends a pod by its deadline.
        ready=phase is PodPhase.RUNNING and not deleting and bool(_condition(status, "Ready", "True")),
        node=raw["spec"].get("nodeName"),
        deleting=deleting,
        exit_code=ended.get("exitCode"),
        ended=_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
        reason=status.get("reason") or disruption.get("reason") or ended.get("reason") or "",
        message=ended.get("message") or status.get("message") or disruption.get("message") or "",
        conditions=frozenset(c["type"] for c in status.get("conditions") or [] if c["status"] == "True"),
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        spec_generation=_number(_within(metadata, "annotations").get(ANNOTATION_SPEC, "")),
        queued=KUEUE_MANAGED in _within(metadata, "labels"),
        holding=LABEL_HOLDING in _within(metadata, "labels"),
        foreign=owner(raw) != job_uid,
    )


def has_ended(raw: Object) -> bool:
    """The pod's phase is final: it holds nothing of its node any more."""
    return _within(raw, "status").get("phase") in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def pod_address(raw: Object) -> str | None:
    """Where the pod's agent can be asked; None while it does not run."""
    status = _within(raw, "status")
    running = status.get("phase") == PodPhase.RUNNING and "deletionTimestamp" not in raw["metadata"]
    return status.get("podIP") if running else None


def node(raw: Object) -> Node:
    conditions: list[Object] = _within(raw, "status").get("conditions") or []
    ready = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    # Without the condition the kubelet never reported: not ready since the node was registered.
    since = ready.get("lastTransitionTime") or raw["metadata"]["creationTimestamp"]
    return Node(name=raw["metadata"]["name"], ready=ready.get("status") == "True", since=_time(since))


def _ended(status: Object, phase: PodPhase) -> Object:
    """How the training container ended, or what else made the pod fail."""
    main, others = _states(status, "containerStatuses"), _states(status, "initContainerStatuses")
    for name, state in main:
        if name == CONTAINER and "terminated" in state:
            return _within(state, "terminated")
    for _, state in [*others, *main] if phase is PodPhase.FAILED else []:
        if _within(state, "terminated").get("exitCode", 0) != 0:
            return _within(state, "terminated")
    return {}


def _waiting(status: Object) -> Object:
    """What keeps the pod from running: scheduling, else a container that cannot start."""
    unscheduled = _condition(status, "PodScheduled", "False")
    if unscheduled:
        return unscheduled
    states = [*_states(status, "initContainerStatuses"), *_states(status, "containerStatuses")]
    waiting = [_within(state, "waiting") for _, state in states]
    return max(waiting, key=lambda state: state.get("reason", "") not in _NOT_A_REASON, default={})


def _states(status: Object, kind: str) -> list[tuple[str, Object]]:
    return [(container["name"], container.get("state") or {}) for container in status.get(kind) or []]


def _condition(status: Object, kind: str, value: str) -> Object:
    conditions: list[Object] = status.get("conditions") or []
    return next((c for c in conditions if c["type"] == kind and c["status"] == value), {})


def _within(value: Object, field: str) -> Object:
    inner: Object = value.get(field) or {}
    return inner


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
