"""`spec` of a TrainingJob, v1alpha1.

What a single field or a single object here must be is said here; what holds between several is in rules.py, and again
as CEL in cel_rules.py.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import Recovery, Replicate
from ringtrain.contract.model import ContractModel
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain_operator.api.names import (
    CONTROLLER_NAME,
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    MAXIMUM_RESOURCE,
    MAXIMUM_SUBDOMAIN,
    QUALIFIED_RESOURCE,
)
from ringtrain_operator.api.quantity import MAXIMUM_LENGTH, PATTERN, quantity_text
from ringtrain_operator.api.scheduling import Scheduling

GROUP = "ringtrain.io"
VERSION = "v1alpha1"
PLURAL = "trainingjobs"
KIND = "TrainingJob"
CONTROLLER = f"{GROUP}/operator"
"""What `managedBy` names unless a user says otherwise: this operator."""

Quantity = Annotated[
    str,
    BeforeValidator(quantity_text),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maxLength": MAXIMUM_LENGTH,
            "pattern": PATTERN,
        }
    ),
]
"""A Kubernetes resource quantity, such as 500m or 16Gi. Whole numbers are accepted too."""

Resource = Annotated[str, Field(max_length=MAXIMUM_RESOURCE)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
Word = Annotated[str, Field(max_length=131072)]
"""A word of a command line."""


class ClaimTemplate(ContractModel):
    """A PersistentVolumeClaim that the job makes."""

    storage: Quantity
    """Requested size, such as 100Gi."""
    storage_class_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=f"^$|{DNS_SUBDOMAIN}")
    """Storage class; the cluster's default when absent, none when empty."""
    access_modes: tuple[Literal["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"], ...] = Field(
        default=("ReadWriteMany",), min_length=1, max_length=3
    )
    """Access modes. Several replicas need ReadWriteMany."""
    when_deleted: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the claim, and of the checkpoints in it, when the job is deleted. Retain: it stays, and a later
    job of the same name goes on from them. Delete: it is deleted with the job that made it."""


class VolumeSource(ContractModel):
    """Where checkpoints are kept: exactly one of claimName and claimTemplate."""

    claim_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=DNS_SUBDOMAIN)
    """An existing PersistentVolumeClaim of the job's namespace. It is never deleted by the job."""
    claim_template: ClaimTemplate | None = None
    """A claim to make, named `<job>-checkpoints`; one of this name that an earlier job left is used."""
    sub_path: str | None = Field(default=None, min_length=1, max_length=1024)
    """Folder within the volume; the job's name when absent."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.claim_name is None) == (self.claim_template is None):
            raise ValueError("set exactly one of claimName and claimTemplate")
        return self


class RestoreFrom(ContractModel):
    """Another job's checkpoints, whose newest one a job without a checkpoint of its own begins with, at round 0."""

    path: str = Field(min_length=1, max_length=1024)
    """Folder of the other job's checkpoints: its name, unless it has a subPath. It lies on the volume of claimName, and
    without one on this job's; an absolute path is one that spec.template mounts."""
    claim_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=DNS_SUBDOMAIN)
    """PersistentVolumeClaim of the job's namespace that holds the folder; it is mounted for reading only."""
    optimizer: bool = False
    """Whether the optimizer goes on from its state there, too; else it starts anew."""


class CheckpointSpec(ContractModel):
    """Checkpoints on a volume that all replicas share, and snapshots in memory."""

    volume: VolumeSource
    """The volume."""
    every: int = Field(default=5, ge=1)
    """Rounds between two checkpoints on the volume. They are written while training goes on."""
    keep: int = Field(default=3, ge=1)
    """The newest committed checkpoints, which are kept."""
    keep_every: int | None = Field(default=None, ge=1)
    """Beside them, those of rounds that are its multiples are kept for ever."""
    memory_every: int = Field(default=1, ge=0)
    """Rounds between two snapshots in the memory of the rank's machine, outside of its process; 0: none. Two of them
    take up to twice a rank's part of the state, 12 bytes a parameter with AdamW, of the pod's memory."""
    replicate: Replicate = "Auto"
    """Whether snapshots are copied into the memory of another machine, too. Auto: when no rank on another machine holds
    the same parameters."""
    save_on_preemption: bool = True
    """Whether all ranks save at the end of the round when a pod is asked to end (drain, preemption, delete), as far as
    its terminationGracePeriodSeconds allows."""
    restore_from: RestoreFrom | None = None
    """What a job without a checkpoint begins with; its seed when absent."""


class FailureAction(StrEnum):
    """What is done about a failure."""

    RESTART = "Restart"
    """The replica, or its rank, is started again; that spends maxRestarts."""
    RESTART_UNCOUNTED = "RestartUncounted"
    """It is started again, and that spends nothing."""
    IGNORE = "Ignore"
    """It is started again, without a warning, and no counter of restarts rises."""
    FAIL_JOB = "FailJob"


class FailureRule(ContractModel):
    """A rule for failures that are described by everything that is given here; of a list, one entry has to fit."""

    action: FailureAction
    """Restart: the replica is restarted, which spends maxRestarts. RestartUncounted: it spends nothing. Ignore: it
    raises no counter of restarts at all, and gives no warning. FailJob: the job is Failed."""
    exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = Field(default=(), max_length=64)
    """Exit codes of the training container, or of the rank; 128 + n for signal n."""
    reasons: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(default=(), max_length=64)
    """Reasons as in status.failures, such as Hang, OutOfMemory, UserError, NodeLost, PodDeleted, Evicted."""
    pod_conditions: tuple[Annotated[str, Field(min_length=1, max_length=316)], ...] = Field(default=(), max_length=16)
    """Types of conditions that are True of the pod. DisruptionTarget, by which the cluster ends a pod for needs of its
    own, is known here also where Kubernetes does not set it (before 1.26, and of pods on lost nodes)."""

    @model_validator(mode="after")
    def _describes_some(self) -> Self:
        if not (self.exit_codes or self.reasons or self.pod_conditions):
            raise ValueError("set at least one of exitCodes, reasons and podConditions")
        return self


class NodeExclusion(ContractModel):
    """When the job keeps off a node. Failures that may be a node's are hangs, ends by a signal, and lost nodes; neither
    those of the training code and the configuration nor those that a rule ignores."""

    after_failures: int = Field(default=3, ge=1, le=10)
    """So many such failures of the job on one node, which are more than on all its other nodes together, exclude that
    node: new pods of the job are not scheduled there. Pods that run there go on."""
    window_seconds: int = Field(default=3600, ge=1, json_schema_extra={"format": "int64"})
    """Only failures of the last so many seconds are looked at; and for so long a node is excluded."""
    max_nodes: int = Field(default=1, ge=1, le=100)
    """Nodes that are excluded at a time; more are not."""


class FaultTolerance(ContractModel):
    """What is done about failures."""

    max_restarts: int = Field(default=10, ge=0, le=10_000)
    """Restarts by failures that the job may spend before it is Failed. Preemptions are not counted; what fails before
    the next generation has begun counts once, but a rank that fails again."""
    restart_window_seconds: int | None = Field(default=None, ge=1, json_schema_extra={"format": "int64"})
    """Only restarts of the last so many seconds spend maxRestarts; when absent, all of the job's life."""
    rules: tuple[FailureRule, ...] = Field(default=(), max_length=32)
    """What is done about failures: the first rule that fits decides. For failures that none fits: what the cluster ends
    for needs of its own, and pods that are deleted, are restarted without being counted; an error of the configuration
    fails the job; everything else is restarted and counted."""
    in_place_restarts: int = Field(default=3, ge=0)
    """How often in a row, without a round finished in between, a rank that crashed or hung is started again in its pod,
    before the pod is replaced; 0: never. Each counts like the replacement of a pod. Errors of the training code and of
    the configuration are not restarted in place."""
    recovery: Recovery = "Live"
    """What training goes on from. Live: from the furthest round that the ranks left still hold, even if a lost rank
    alone knew its random generators and its error feedback, which then begin anew. Exact: from the newest round of
    which every rank's whole state is left, and so with the bits of a job that nothing happened to."""
    timeouts: PhaseTimeouts = PhaseTimeouts()
    """Longest time without a heartbeat, by phase. A rank that exceeds it is restarted in place; where that is over, its
    pod is restarted once the liveness probe has seen it three times, 5 s apart."""
    node_loss_seconds: float = Field(default=30, ge=1)
    """Seconds a node may be not ready before its pods are given up, removed and replaced."""
    node_exclusion: NodeExclusion | None = None
    """When the job keeps off a node on which it fails again and again; never when absent."""
    preflight: Preflight | None = None
    """A check of every machine before the first round, and of all of them whenever a new pod joins; ranks that are
    started again in their pods are not checked. Never when absent."""


class Elastic(ContractModel):
    """When the job goes on with fewer replicas than spec.replicas, and when it grows again."""

    min_replicas: int = Field(ge=1, le=9999)
    """The fewest replicas that train. With fewer the job waits."""
    wait_seconds: int = Field(default=60, ge=1, json_schema_extra={"format": "int64"})
    """So long a pod may be unschedulable before the job goes on without it: all replicas that have a node save a
    checkpoint, end, and start anew, as many as parallelism.pipeline allows."""
    grow_after_seconds: int = Field(default=300, ge=1, json_schema_extra={"format": "int64"})
    """So long the job stays at a smaller size. Then pods that train nothing are created for the missing replicas; when
    they have found nodes, all replicas save and start anew, in the larger number."""


class TemplateMetadata(ContractModel):
    """Labels and annotations for the pods."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels to add; those under ringtrain.io/ are reserved."""
    annotations: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Annotations to add; those under ringtrain.io/ are reserved."""


class PodTemplate(ContractModel):
    """Overrides merged into every pod of the job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations for the pods."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """A partial PodSpec (nodeSelector, tolerations, affinity, volumes, securityContext, imagePullSecrets...). An entry
    of `containers` named `trainer` is merged into the training container (env, volumeMounts, securityContext...)."""


class Resources(ContractModel):
    """Resources of one replica."""

    requests: dict[Resource, Quantity] = Field(default_factory=dict, max_length=32)
    """Requested quantities, by resource name."""
    limits: dict[Resource, Quantity] = Field(default_factory=dict, max_length=32)
    """Limits, by resource name. With device cuda the GPU resource defaults to procsPerReplica."""


class TrainingJobSpec(ContractModel):
    """What is trained, on how much, and what is done when something fails."""

    suspend: bool = False
    """Whether the job has no pods. Set on a running job, all ranks save a checkpoint within their grace period, and the
    pods end; unset, they start anew from it. While it is suspended, most of the spec may be changed."""
    active_deadline_seconds: int | None = Field(default=None, ge=1, json_schema_extra={"format": "int64"})
    """Seconds that the job may be active, from its first pod, before it is Failed. Time suspended is not counted."""
    pending_deadline_seconds: int | None = Field(default=None, ge=1, json_schema_extra={"format": "int64"})
    """Seconds that the job may wait, at its start or after a failure, until all its pods run, before it is Failed."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, json_schema_extra={"format": "int64"})
    """Seconds after its end until the job is deleted, with its pods; never when absent."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """Which pods are deleted when the job has ended: those that still run, all, or none. Ended ones are kept for their
    logs. With None, pods of a failed job may wait for ever, and hold their GPUs."""
    managed_by: str | None = Field(default=None, max_length=63, pattern=CONTROLLER_NAME)
    """The controller that cares for the job, such as kueue.x-k8s.io/multikueue; this operator does nothing about a job
    that names another than ringtrain.io/operator. It cannot be changed."""
    image: str = Field(min_length=1, max_length=1024, pattern=r"^\S+$")
    """Container image of the replicas; it has ringtrain's trainer installed."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; Kubernetes' default when absent."""
    command: tuple[Word, ...] = Field(default=(), max_length=1024)
    """Your own training program, started once per rank: one that calls ringtrain.run, or a script as torchrun starts
    them. Exactly one of command and trainer."""
    args: tuple[Word, ...] = Field(default=(), max_length=1024)
    """Arguments added to the command."""
    trainer: TrainerConfig | None = None
    """Configuration of the built-in language-model trainer. Exactly one of command and trainer."""
    replicas: int = Field(default=1, ge=1, le=9999)
    """Pods; each stands for one machine."""
    procs_per_replica: int = Field(default=1, ge=1, le=64)
    """Ranks (training processes) in each replica, one GPU each."""
    device: Literal["cuda", "cpu"] = "cuda"
    """What ranks compute on."""
    gpu_resource: str = Field(default="nvidia.com/gpu", max_length=MAXIMUM_RESOURCE, pattern=QUALIFIED_RESOURCE)
    """Resource name of the GPUs that replicas ask for when device is cuda."""
    resources: Resources = Resources()
    """Resources of one replica."""
    shm_size: Quantity = "2Gi"
    """Size of the memory-backed /dev/shm."""
    communication: CommunicationConfig = CommunicationConfig()
    """How gradients are summed over all ranks."""
    parallelism: ParallelismConfig = ParallelismConfig()
    """How the model is spread over ranks."""
    checkpoint: CheckpointSpec | None = None
    """Checkpoints. Without them a failure starts the job over from round 0."""
    fault_tolerance: FaultTolerance = FaultTolerance()
    """What is done about failures."""
    elastic: Elastic | None = None
    """Whether the job may train with fewer replicas while not all of them find a node. The built-in trainer accumulates
    gradients more often then, so that the global batch stays; it is rounded up to whole micro-batches. Needs
    checkpoint; not with faultTolerance.recovery Exact, nor with communication.inter mpi. Never when absent."""
    spare_replicas: int = Field(default=0, ge=0, le=100)
    """Pods beside the replicas that train nothing and hold a node each, with the resources and the image of a replica.
    When a replica's new pod finds no node, a spare is deleted and gives its place."""
    scheduling: Scheduling = Scheduling()
    """Where and by whom the job's pods are scheduled."""
    template: PodTemplate = PodTemplate()
    """Overrides merged into every pod of the job."""
