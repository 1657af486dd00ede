"""`spec` of a TrainingJob, v1alpha1."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from ringtrain.contract.model import ContractModel
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.trainer_config import TrainerConfig

GROUP = "ringtrain.io"
VERSION = "v1alpha1"
PLURAL = "trainingjobs"
KIND = "TrainingJob"

Quantity = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
    ),
]
"""A Kubernetes resource quantity, such as 500m or 16Gi. Numbers are accepted too, as everywhere in Kubernetes."""


class ClaimTemplate(ContractModel):
    """A PersistentVolumeClaim that the job makes and owns: it is deleted with the job."""

    storage: Quantity
    """Requested size, such as 100Gi."""
    storage_class_name: str | None = None
    """Storage class; the cluster's default when absent."""
    access_modes: tuple[Literal["ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"], ...] = ("ReadWriteMany",)
    """Access modes. Pods on several nodes need ReadWriteMany."""


class VolumeSource(ContractModel):
    """Where checkpoints are kept: exactly one of claimName and claimTemplate."""

    claim_name: str | None = None
    """An existing PersistentVolumeClaim of the job's namespace. It is never deleted by the job."""
    claim_template: ClaimTemplate | None = None
    """A claim to make, named `<job>-checkpoints` and owned by the job."""
    sub_path: str | None = None
    """Folder within the volume; the job's name when absent."""


class CheckpointSpec(ContractModel):
    """Checkpoints on a volume that all replicas share."""

    volume: VolumeSource
    """The volume."""
    every: int = Field(default=5, ge=1)
    """Rounds between two checkpoints."""
    keep: int = Field(default=3, ge=1)
    """Committed checkpoints that are kept."""


class FaultTolerance(ContractModel):
    """What is done about failures."""

    max_restarts: int = Field(default=10, ge=0)
    """Restarts by failures that the job may spend before it is Failed. Preemptions are not counted."""
    timeouts: PhaseTimeouts = PhaseTimeouts()
    """Longest time without a heartbeat, by phase. A rank that exceeds it is restarted."""
    node_loss_seconds: float = Field(default=30, ge=1)
    """Seconds a node may be not ready before its pods are given up, removed and replaced."""


class TemplateMetadata(ContractModel):
    """Labels and annotations for the pods."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels to add; those under ringtrain.io/ are reserved."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations to add."""


class PodTemplate(ContractModel):
    """Overrides merged into every pod of the job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations for the pods."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """A partial PodSpec (nodeSelector, tolerations, affinity, volumes, securityContext, imagePullSecrets...). An entry
    of `containers` named `trainer` is merged into the training container (env, volumeMounts, securityContext...)."""


class Resources(ContractModel):
    """Resources of one replica."""

    requests: dict[str, Quantity] = Field(default_factory=dict)
    """Requested quantities, by resource name."""
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """Limits, by resource name. With device cuda the GPU resource defaults to procsPerReplica."""


class TrainingJobSpec(ContractModel):
    """What is trained, on how much, and what is done when something fails."""

    image: str = Field(min_length=1)
    """Container image of the replicas; it has ringtrain's trainer installed."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; Kubernetes' default when absent."""
    command: tuple[str, ...] = ()
    """Your own training program, started once per rank, which calls ringtrain.run. Exactly one of command and
    trainer."""
    args: tuple[str, ...] = ()
    """Arguments added to the command."""
    trainer: TrainerConfig | None = None
    """Configuration of the built-in language-model trainer. Exactly one of command and trainer."""
    replicas: int = Field(default=1, ge=1, le=9999)
    """Pods; each stands for one machine."""
    procs_per_replica: int = Field(default=1, ge=1, le=64)
    """Ranks (training processes) in each replica, one GPU each."""
    device: Literal["cuda", "cpu"] = "cuda"
    """What ranks compute on."""
    gpu_resource: str = Field(default="nvidia.com/gpu", min_length=1)
    """Resource name of the GPUs that replicas ask for when device is cuda."""
    resources: Resources = Resources()
    """Resources of one replica."""
    shm_size: Quantity = "2Gi"
    """Size of the memory-backed /dev/shm."""
    checkpoint: CheckpointSpec | None = None
    """Checkpoints. Without them a failure starts the job over from round 0."""
    fault_tolerance: FaultTolerance = FaultTolerance()
    """What is done about failures."""
    template: PodTemplate = PodTemplate()
    """Overrides merged into every pod of the job."""
