"""Jobs, pods and nodes for the plan's tests."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ringtrain_operator.api.status import JobPhase, Member, TrainingJobStatus
from ringtrain_operator.plan.observed import Job, JobKey, Node, Pod, PodPhase

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
KEY = JobKey("team", "gpt")

SPEC: Mapping[str, Any] = {
    "image": "trainer:1",
    "replicas": 3,
    "procsPerReplica": 2,
    "device": "cpu",
    "trainer": {"rounds": 60, "data": {"paths": ["/data/*.txt"]}},
    "checkpoint": {"volume": {"claimName": "disk"}},
    "faultTolerance": {"maxRestarts": 2, "nodeLossSeconds": 30},
}


def spec_with(**fields: Any) -> dict[str, Any]:
    return {**SPEC, **fields}


def job(spec: Mapping[str, Any] = SPEC, status: TrainingJobStatus | None = None, **fields: Any) -> Job:
    given: dict[str, Any] = {
        "key": KEY,
        "uid": "job-uid",
        "resource_version": "7",
        "generation": 1,
        "spec": spec,
        "status": status or TrainingJobStatus(),
        "created": NOW,
    }
    return Job(**(given | fields))


def members(*epochs: int) -> tuple[Member, ...]:
    """One member for each epoch, whose pod was seen."""
    return tuple(Member(index=index, epoch=epoch, pod_uid=f"uid-{index}-{epoch}") for index, epoch in enumerate(epochs))


def status(*epochs: int, **fields: Any) -> TrainingJobStatus:
    """Of a job whose members' pods have these epochs and were seen."""
    given: dict[str, Any] = {
        "phase": JobPhase.RUNNING,
        "replicas": len(epochs),
        "epoch": max(epochs, default=0),
        "members": members(*epochs),
        "generation": f"{max(epochs, default=0)}.0",
        "observed_generation": 1,
    }
    return TrainingJobStatus(**(given | fields))


def pod(index: int, epoch: int = 0, phase: PodPhase = PodPhase.RUNNING, **fields: Any) -> Pod:
    given: dict[str, Any] = {
        "name": f"gpt-{index}-{epoch}",
        "uid": f"uid-{index}-{epoch}",
        "index": index,
        "epoch": epoch,
        "phase": phase,
        "created": NOW,
        "node": f"node-{index}",
    }
    return Pod(**(given | fields))


def ended(index: int, epoch: int = 0, code: int = 1, **fields: Any) -> Pod:
    phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
    return pod(index, epoch, phase, exit_code=code, **({"reason": "Error"} | fields))


def nodes(*names: str, ready: bool = True, age: float = 3600) -> dict[str, Node]:
    """Nodes that have been ready, or not, for `age` seconds."""
    return {name: Node(name=name, ready=ready, since=NOW - timedelta(seconds=age)) for name in names}


NODES = nodes("node-0", "node-1", "node-2")
