"""From a pod's manifest to a process on this machine: what must differ here, and nothing else. Pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ringtrain.contract.addresses import Addresses
from ringtrain.contract.environment import PREFIX, CheckpointSettings, ReplicaEnvironment
from ringtrain.contract.faults import Fault
from ringtrain_operator.api import reserved
from ringtrain_operator.local.probes import Probe

TRAINER = "trainer"
_PYTHONS = ("python", "python3")
POD_UID = PREFIX + "POD_UID"
"""Marks every process of a pod, so that none survives its agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one run gives its pods in place of what a cluster would."""

    addresses: Addresses
    checkpoints: Path
    faults: tuple[Fault, ...] = ()
    gpus: tuple[str, ...] = ()
    """Identifiers for CUDA_VISIBLE_DEVICES of all GPUs that replicas are dealt; empty for CPU jobs."""
    base_environment: Mapping[str, str]
    """This process's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A pod's training container, ready to be started here."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    replica: ReplicaEnvironment
    liveness: Probe | None
    readiness: Probe | None
    grace_seconds: float


def localize(manifest: Mapping[str, Any], uid: str, termination_log: Path, machine: Machine) -> Container:
    """The container of the Pod `manifest`. Raises ValueError (BadEnvironment too) when it is none that can run."""
    spec = manifest["spec"]
    container = next((entry for entry in spec["containers"] if entry["name"] == TRAINER), None)
    if container is None:
        raise ValueError(f"the pod has no container named {TRAINER}")
    given = {entry["name"]: str(entry["value"]) for entry in container.get("env", ()) if "value" in entry}
    replica = ReplicaEnvironment.from_env(given)
    replica = replace(
        replica,
        addresses=machine.addresses,
        termination_log=str(termination_log),
        checkpoint=replica.checkpoint and _checkpoint(replica.checkpoint, machine.checkpoints),
        command=_own_python(replica.command),
        faults=machine.faults,
    )
    inherited = {name: value for name, value in machine.base_environment.items() if not name.startswith(PREFIX)}
    own = {name: value for name, value in given.items() if not name.startswith(PREFIX)}
    return Container(
        arguments=_own_python((*container["command"], *container.get("args", ()))),
        environment=inherited | own | replica.to_env() | _gpus(replica, machine.gpus) | {POD_UID: uid},
        replica=replica,
        liveness=Probe.of(container, "livenessProbe"),
        readiness=Probe.of(container, "readinessProbe"),
        grace_seconds=float(spec.get("terminationGracePeriodSeconds", 30)),
    )


def _checkpoint(settings: CheckpointSettings, directory: Path) -> CheckpointSettings:
    """The run directories that lie side by side stand for the volumes, on which every job has a folder of its name."""
    found = settings.model_copy(update={"directory": str(directory)})
    for volume in (reserved.CHECKPOINT_PATH, reserved.RESTORE_PATH):
        other = settings.warm_start
        if other is not None and other.directory.startswith(f"{volume}/"):
            job = other.directory.removeprefix(f"{volume}/")
            path = directory.parent.parent / job / directory.name
            found = found.model_copy(update={"warm_start": other.model_copy(update={"directory": str(path)})})
    return found


def _own_python(command: Sequence[str]) -> tuple[str, ...]:
    """A container's `python` is the one that runs this."""
    if command and command[0] in _PYTHONS:
        return (sys.executable, *command[1:])
    return tuple(command)


def _gpus(replica: ReplicaEnvironment, gpus: Sequence[str]) -> dict[str, str]:
    """A device plugin's work: every replica sees its own GPUs only."""
    if not gpus:
        return {}
    count = replica.procs_per_replica
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus[replica.replica * count :][:count])}
