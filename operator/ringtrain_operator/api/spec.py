"""`spec` of a TrainingJob, v1alpha1.

What a single field or a single object here must be is said here; what holds between several is in rules.py, and again
as CEL in cel_rules.py.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import Replicate
from ringtrain.contract.model import ContractModel
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain_operator.api.names import (
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    MAXIMUM_RESOURCE,
    MAXIMUM_SUBDOMAIN,
    QUALIFIED_RESOURCE,
)
from ringtrain_operator.api.quantity import MAXIMUM_LENGTH, PATTERN, quantity_text

GROUP = "ringtrain.io"
VERSION = "v1alpha1"
PLURAL = "trainingjobs"
KIND = "TrainingJob"

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
    """A PersistentVolumeClaim that the job makes and owns: it is deleted with the job."""

    storage: Quantity
    """Requested size, such as 100Gi."""
    storage_class_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=f"^$|{DNS_SUBDOMAIN}")
    """Storage class; the cluster's default when absent, none when empty."""
    access_modes: tuple[Literal["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"], ...] = Field(
        default=("ReadWriteMany",), min_length=1, max_length=3
    )
    """Access modes. Several replicas need ReadWriteMany."""


class VolumeSource(ContractModel):
    """Where checkpoints are kept: exactly one of claimName and claimTemplate."""

    claim_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=DNS_SUBDOMAIN)
    """An existing PersistentVolumeClaim of the job's namespace. It is never deleted by the job."""
    claim_template: ClaimTemplate | None = None
    """A claim to make, named `<job>-checkpoints` and owned by the job."""
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


class FaultTolerance(ContractModel):
    """What is done about failures."""

    max_restarts: int = Field(default=10, ge=0)
    """Restarts by failures that the job may spend before it is Failed. Preemptions are not counted."""
    in_place_restarts: int = Field(default=3, ge=0)
    """How often in a row, without a round finished in between, a rank that crashed or hung is started again in its pod,
    before the pod is replaced; 0: never. Each counts like the replacement of a pod. Errors of the training code and of
    the configuration are not restarted in place."""
    timeouts: PhaseTimeouts = PhaseTimeouts()
    """Longest time without a heartbeat, by phase. A rank that exceeds it is restarted in place; where that is over, its
    pod is restarted once the liveness probe has seen it three times, 5 s apart."""
    node_loss_seconds: float = Field(default=30, ge=1)
    """Seconds a node may be not ready before its pods are given up, removed and replaced."""


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
    template: PodTemplate = PodTemplate()
    """Overrides merged into every pod of the job."""
