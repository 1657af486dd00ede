"""A TrainingJob as it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pydantic import ValidationError

from ringtrain_operator.api.spec import GROUP, KIND, VERSION
from ringtrain_operator.api.status import TERMINAL, TrainingJobStatus
from ringtrain_operator.client.errors import NoSuchJob, Refused
from ringtrain_operator.plan.defaults import inherited_by, with_defaults

_GIVEN = ("namespace", "name", "labels", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    namespace: str
    name: str
    uid: str
    generation: int
    created: datetime | None
    """None in run directories, which do not keep it."""
    spec: Mapping[str, Any]
    status: TrainingJobStatus
    raw: Mapping[str, Any]
    """The whole object, with what this version does not know."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """From the object as JSON. Fields of a newer operator are left out of `status`. Raises Refused when it has none
        that can be read."""
        metadata = raw["metadata"]
        created = metadata.get("creationTimestamp")
        try:
            status = TrainingJobStatus.model_validate(raw.get("status") or {}, extra="ignore")
        except ValidationError as error:
            raise Refused(
                f"the status of {metadata['name']} is not one that this version of ringtrain reads: install the "
                f"version of the operator ({error.error_count()} fields)"
            ) from error
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 0),
            created=datetime.fromisoformat(created) if created else None,
            spec=raw.get("spec") or {},
            status=status,
            raw={"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND} | dict(raw),
        )

    @property
    def whole_spec(self) -> Mapping[str, Any]:
        """With the administrators' defaults that it began with; those of a job to come only the operator knows."""
        return with_defaults(self.spec, inherited_by(self.status))

    @property
    def is_over(self) -> bool:
        """Whether it succeeded or failed, and the operator has seen its latest spec."""
        return self.status.phase in TERMINAL and self.status.observed_generation >= self.generation

    @property
    def procs_per_replica(self) -> int:
        return int(self.spec.get("procsPerReplica", 1))

    def replica_of(self, rank: int) -> int:
        """Ranks are counted replica by replica. Raises NoSuchJob when it has no such rank."""
        replicas = self.status.replicas or self.spec.get("replicas", 1)
        ranks = replicas * self.procs_per_replica
        if rank >= ranks:
            raise NoSuchJob(f"{self.name} has ranks 0..{ranks - 1}, and no rank {rank}")
        return rank // self.procs_per_replica


def manifest_of(job: TrainingJob) -> dict[str, Any]:
    """What makes a job like it: without what the cluster and the operator added."""
    metadata = {field: job.raw["metadata"][field] for field in _GIVEN if job.raw["metadata"].get(field)}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": metadata, "spec": dict(job.spec)}


def deletes_its_claim(spec: Mapping[str, Any]) -> bool:
    """Whether the checkpoints go with the job."""
    volume = (spec.get("checkpoint") or {}).get("volume") or {}
    return (volume.get("claimTemplate") or {}).get("whenDeleted") == "Delete"
