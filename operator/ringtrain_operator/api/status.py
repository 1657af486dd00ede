"""`status` of a TrainingJob, v1alpha1."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from ringtrain.contract.model import ContractModel
from ringtrain.contract.report import CheckpointRecord
from ringtrain_operator.api.spec import FailureAction

FAILURES_KEPT = 10
WARNINGS_KEPT = 5


class JobPhase(StrEnum):
    INVALID = "Invalid"
    """The spec cannot work; nothing was created. Goes on when the spec is corrected."""
    PENDING = "Pending"
    """Pods are being created, scheduled or pulled."""
    STARTING = "Starting"
    """All pods run; the ranks are meeting."""
    RUNNING = "Running"
    """Rounds are trained."""
    RESTARTING = "Restarting"
    """A replica is being replaced; the others wait with their state."""
    SUSPENDING = "Suspending"
    """Ranks save a checkpoint, and the pods end."""
    SUSPENDED = "Suspended"
    """There are no pods until spec.suspend is unset."""
    SUCCEEDED = "Succeeded"
    """All rounds are trained, and the last checkpoint is committed."""
    FAILED = "Failed"
    """For good: nothing of it is started again. Its message says why."""


TERMINAL = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


class Condition(ContractModel):
    """A metav1.Condition. Types: Accepted, Suspended, Schedulable, Running, Complete, Failed."""

    type: str
    """Accepted (the spec is valid), Suspended (no pods until it is resumed), Schedulable (all pods found room at once,
    with scheduling.gang Operator, or are known to Kueue), Running (rounds are trained), Complete or Failed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: int = 0
    """metadata.generation that this was decided on."""
    last_transition_time: datetime
    """When the status last changed."""
    reason: str
    """CamelCase reason."""
    message: str = ""
    """Sentence for people."""


class Member(ContractModel):
    """The pod that currently stands for a replica."""

    index: int
    """Replica index."""
    epoch: int
    """Epoch of its pod: the pod is named <job>-<index>-<epoch>."""
    pod_uid: str | None = Field(default=None, alias="podUID")
    """The pod's UID once it was seen. A pod that was seen and is gone has failed."""
    in_place_restarts: int = 0
    """How many restarts of ranks in this pod were counted."""


class Failure(ContractModel):
    """One failure that was acted on."""

    time: datetime
    """When it was noticed."""
    happened: datetime | None = None
    """When it happened, where the cluster tells: the end of a container, or of a node's readiness."""
    replica: int
    """Replica index."""
    rank: int | None = None
    """Rank that failed, where known."""
    pod: str
    """Pod name."""
    node: str | None = None
    """Node of the pod."""
    reason: str
    """CamelCase reason, such as Hang, OutOfMemory, Signal9, NodeLost, PodDeleted, Evicted."""
    exit_code: int | None = None
    """Exit code of the pod's container, where it had one."""
    message: str = ""
    """What the rank said last."""
    action: FailureAction = FailureAction.RESTART
    """What was done about it; see faultTolerance.rules."""
    counted: bool = True
    """Whether it spent the restart budget."""
    in_place: bool = False
    """Whether the rank was started again in its pod; else the pod was replaced."""
    generation: str = ""
    """EPOCH.ATTEMPT of the newest generation before it, as far as is known: failures of one generation count as one
    restart."""


class Incident(ContractModel):
    """The failures that count as one restart: those of one generation, one of each rank."""

    generation: str = ""
    """EPOCH.ATTEMPT of the generation; empty before the first."""
    failed: tuple[str, ...] = ()
    """Who failed in it: `rank 3`, or `replica 1` where the rank is not known."""
    counted: bool = False
    """Whether it spent the restart budget."""


class ExcludedNode(ContractModel):
    """A node on which no new pod of the job is scheduled."""

    name: str
    """The node."""
    time: datetime
    """Since when."""
    reason: str
    """The failures there that led to it, such as `3 x Hang`."""


class Reduced(ContractModel):
    """That the job trains with fewer replicas than spec.replicas; see spec.elastic."""

    replicas: int
    """With how many."""
    of: int
    """How many were wanted then."""
    since: datetime
    """When it was decided."""
    reason: str
    """Why the others have no place."""


class JobWarning(ContractModel):
    """Something a user should know although training goes on."""

    time: datetime
    """When it was said."""
    reason: str
    """CamelCase reason, such as CheckpointDamaged."""
    message: str
    """Sentence for people."""


class CommunicationStatus(ContractModel):
    """Communication since the current generation began, or its warm-up ended, as one rank measured it."""

    codec: str
    """Of large tensors between machines, such as zfp-4; bf16 during the warm-up."""
    share: str
    """Exposed communication / round time, in percent: the time in which training waited for communication."""
    ratio: str = ""
    """How many times fewer bytes went between machines than the gradients as they are have."""
    bytes_per_round: int = Field(default=0, json_schema_extra={"format": "int64"})
    """Sent to other machines by one rank, per round."""


class TrainingJobStatus(ContractModel):
    """What the operator knows of a job. Written by the operator alone, once per pass."""

    observed_generation: int = 0
    """metadata.generation that this status is about."""
    phase: JobPhase = JobPhase.PENDING
    """One word on the job's state."""
    message: str = ""
    """One sentence on the job's state: what it waits for, why it failed."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of types Accepted, Suspended, Schedulable, Running, Complete, Failed."""
    replicas: int = 0
    """Replicas wanted."""
    ready: int = 0
    """Replicas whose pod is ready."""
    epoch: int = 0
    """Raised before every replacement of a pod; fences what is older."""
    generation: str = ""
    """EPOCH.ATTEMPT of the generation that trains."""
    members: tuple[Member, ...] = ()
    """The pods that stand for the replicas."""
    pod_group: str = ""
    """The pod group that new pods belong to, with scheduling.gang Kueue."""
    started_with: str = ""
    """As JSON, what the pods were told of the spec and must all be told alike."""
    inherited: str = ""
    """As JSON, the administrators' defaults that the job began with, and keeps; its own spec precedes them."""
    restarts: int = 0
    """Restarts after failures so far: of pods that were replaced, and of ranks in their pods. Failures of several ranks
    in one generation are one."""
    counted_restarts: int = 0
    """Those that spent the budget of faultTolerance.maxRestarts."""
    recent_counted_restarts: tuple[datetime, ...] = ()
    """Times of those within faultTolerance.restartWindowSeconds, which spend the budget still; none without it."""
    incident: Incident | None = None
    """The last restart, of which later failures may turn out to be part."""
    round: int = 0
    """Rounds finished."""
    total_rounds: int = 0
    """Rounds to train; 0 while unknown."""
    progress: str = ""
    """round/totalRounds for people."""
    loss: str = ""
    """Mean training loss of the last round, in nats per token, in decimal notation."""
    communication: CommunicationStatus | None = None
    """What rounds cost in communication."""
    last_checkpoint: CheckpointRecord | None = None
    """The newest committed checkpoint."""
    failures: tuple[Failure, ...] = ()
    """The last 10 failures, newest last."""
    reduced: Reduced | None = None
    """The size that the job has while it is smaller than spec.replicas, and why."""
    excluded_nodes: tuple[ExcludedNode, ...] = ()
    """Nodes that new pods keep off, by faultTolerance.nodeExclusion."""
    warnings: tuple[JobWarning, ...] = ()
    """The last 5 warnings, newest last."""
    notice_cursor: str = ""
    """The last notice of the trainer that became an event: COORDINATOR/SEQUENCE."""
    start_time: datetime | None = None
    """When the first pod was created."""
    active_since: datetime | None = None
    """Since when it is active without a break: since its first pod, or since it was last resumed."""
    active_seconds: int = Field(default=0, json_schema_extra={"format": "int64"})
    """Seconds that it was active before it was last suspended."""
    pending_since: datetime | None = None
    """Since when it waits for all its pods to run."""
    completion_time: datetime | None = None
    """When the job succeeded or failed."""


def as_stored(status: TrainingJobStatus) -> dict[str, Any]:
    """JSON for the API server, without empty texts, as Kubernetes' own types leave them out: servers built by newer Go
    than their own take an empty text for null, and refuse it. So no text that may be empty can be a required one."""
    stored: dict[str, Any] = _without_empty_texts(status.model_dump(mode="json", by_alias=True, exclude_none=True))
    return stored


def _without_empty_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_empty_texts(inner) for name, inner in value.items() if inner != ""}
    return [_without_empty_texts(entry) for entry in value] if isinstance(value, list) else value
