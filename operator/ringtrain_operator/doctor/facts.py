"""What the doctor knows of a cluster. Everything that could not be asked is an Unknown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ringtrain_operator.client.job import TrainingJob
from ringtrain_operator.doctor.rights import Right

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unknown:
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crd:
    served: tuple[str, ...]
    """Versions."""
    established: bool
    fields: frozenset[str]
    """Paths of the fields that our version's schema has, such as spec.trainer.rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A Deployment of the chart."""

    namespace: str
    name: str
    image: str
    wanted: int
    """Replicas."""
    ready: int
    watched: tuple[str, ...]
    """Namespaces; none: all."""
    account: str
    """Its service account."""
    lease: str
    """NAMESPACE/NAME of the Lease by which one of its pods leads; empty: none."""
    watches_nodes: bool
    trouble: tuple[str, ...] = ()
    """What its pods wait for: `REASON: MESSAGE`."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    name: str
    provisioner: str
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume."""

    storage_class: str
    modes: tuple[str, ...]
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A job's pod that does not start."""

    job: str
    name: str
    image: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns:
    """Services of cluster DNS, with how many ready addresses each has."""

    services: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    namespace: str
    """Where jobs are to run."""
    now: datetime
    crd: Crd | Unknown | None
    """None: the cluster knows no TrainingJobs."""
    denied: tuple[Right, ...]
    """Of what a user of jobs does, that which we may not."""
    operators: tuple[Operator, ...] | Unknown
    operator_denied: Mapping[str, tuple[Right, ...]] | Unknown
    """By service account of an operator that looks at the namespace, of what it needs, that which it may not."""
    jobs: tuple[TrainingJob, ...] | Unknown
    """Of the namespace."""
    waiting: tuple[WaitingPod, ...] | Unknown
    """Of the namespace's jobs."""
    classes: tuple[StorageClass, ...] | Unknown
    volumes: tuple[Volume, ...] | Unknown
    gpus: Mapping[str, int] | Unknown
    """How many of each device all ready nodes offer."""
    pod_networks: tuple[str, ...]
    """CIDRs of pods, as far as known."""
    dns: Dns | Unknown
    policies: tuple[Mapping[str, Any], ...] | Unknown
    """NetworkPolicies of the namespace, as stored."""
    namespace_labels: Mapping[str, Labels]
    """Of this namespace and of the operators', as far as known."""
