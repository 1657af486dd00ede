"""What a pass sees: the job and its children at one moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ringtrain.contract.report import JobReport
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.room import Room


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A TrainingJob as stored. `spec` is the raw object: parsing it, over defaults, is the plan's first step."""

    key: JobKey
    uid: str
    resource_version: str
    generation: int
    spec: Mapping[str, Any]
    status: TrainingJobStatus
    created: datetime
    deleting: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Those of the administrators for a job of its namespace that begins now."""
    written: datetime | None = None
    """When this operator last wrote its status; None: not since it began."""
    log_file: str = ""
    """Path of a pod's log, with {pod} in place of its name, for str.format; empty where kubectl shows logs."""


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    name: str
    uid: str
    index: int
    epoch: int
    phase: PodPhase
    created: datetime
    ready: bool = False
    node: str | None = None
    deleting: bool = False
    """It has a deletion time."""
    exit_code: int | None = None
    """Of the trainer container, once it ended."""
    ended: datetime | None = None
    """When that was, where the cluster tells."""
    reason: str = ""
    """Of the ended container (OOMKilled, Error...) or of the pod (Evicted, NodeLost, Preempting...)."""
    message: str = ""
    """The container's termination message (a TerminationMessage as JSON when the agent wrote it), or the pod's."""
    conditions: frozenset[str] = frozenset()
    """Types of its conditions that are True."""
    waiting_reason: str = ""
    """Why it does not run yet: Unschedulable, ImagePullBackOff, CreateContainerConfigError..."""
    waiting_message: str = ""
    spec_generation: int | None = None
    """Generation of the job that it was made from, where known."""
    queued: bool = False
    """Kueue cares for it."""
    holding: bool = False
    """It trains nothing, and only holds a place."""
    foreign: bool = False
    """It carries the job's label and belongs to another owner, such as a deleted job of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    ready: bool
    since: datetime
    """Of the last change of `ready`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Never older than the status of the job that it was observed for: a pod that is missing here, and whose UID that
    status names, is gone."""

    pods: tuple[Pod, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """The nodes that the pods are on; a node that no longer exists is missing."""
    service_exists: bool = False
    claim_exists: bool = False
    """The claim that spec.checkpoint names or makes."""
    agents_from: Sequence[Mapping[str, Any]] | None = None
    """NetworkPolicyPeers that may ask the agents, beside the job's own pods; None: no NetworkPolicy is made."""
    policy_exists: bool = False
    report: JobReport | None = None
    """The newest report that an agent of the job gave, if one could be reached in this pass or shortly before."""
    room: Room | None = None
    """What is free on the nodes; None: nobody has looked."""
    namespace_ending: bool = False
    """The job's namespace is being deleted: its objects go one by one, and nothing can be created in it."""
    refused: str = ""
    """Why the last create was refused (quota, admission), in the cluster's words; empty once one succeeded."""
