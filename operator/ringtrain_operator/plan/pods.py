"""The manifest of one replica's pod."""

from collections.abc import Sequence
from typing import Any

from ringtrain.contract.addresses import AGENT_PORT, Addresses
from ringtrain.contract.environment import CheckpointSettings, ReplicaEnvironment, WarmStart
from ringtrain_operator.api import reserved
from ringtrain_operator.api.scheduling import Scheduling
from ringtrain_operator.api.spec import CheckpointSpec, RestoreFrom, TrainingJobSpec
from ringtrain_operator.plan.children import PORTS, metadata
from ringtrain_operator.plan.names import (
    ANNOTATION_SPEC,
    LABEL_EPOCH,
    LABEL_HOLDING,
    LABEL_JOB,
    LABEL_REPLICA,
    claim_name,
    host_name,
    pod_name,
)
from ringtrain_operator.plan.observed import Job
from ringtrain_operator.plan.placement import kept_off, near
from ringtrain_operator.plan.pod_group import marks
from ringtrain_operator.plan.template import merge

_GRACE_SECONDS = 30
_USER = 1000
"""An unprivileged user and group, whatever the image's own; spec.template can set others."""


def pod(
    job: Job, spec: TrainingJobSpec, index: int, epoch: int, excluded_nodes: Sequence[str] = (), group: str = ""
) -> dict[str, Any]:
    """The Pod `<job>-<index>-<epoch>`: the job's own, with spec.template merged into it, off `excluded_nodes`. `group`
    is the pod group of the job's status."""
    own = _own_spec(job, spec, index)
    together = near(merge(own, spec.template.spec), spec.scheduling, {LABEL_JOB: job.key.name})
    pod_spec = kept_off(together, excluded_nodes)
    container = next(entry for entry in pod_spec["containers"] if entry["name"] == reserved.CONTAINER)
    grace = float(pod_spec["terminationGracePeriodSeconds"])
    given = {entry["name"] for entry in container["env"]}
    environment = replica_environment(job, spec, index, epoch, grace).to_env()
    container["env"] = [
        *({"name": name, "value": value} for name, value in environment.items() if name not in given),
        *container["env"],
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(job, spec, index, epoch, group), "spec": pod_spec}


def holder(
    job: Job, spec: TrainingJobSpec, index: int, epoch: int, excluded_nodes: Sequence[str] = ()
) -> dict[str, Any]:
    """A pod that would be replica `index`, and only holds its place: nobody probes it, scrapes it or connects to it."""
    made = pod(job, spec, index, epoch, excluded_nodes)
    made["metadata"]["labels"][LABEL_HOLDING] = "true"
    made["metadata"]["annotations"] = {ANNOTATION_SPEC: str(job.generation)}
    container = next(entry for entry in made["spec"]["containers"] if entry["name"] == reserved.CONTAINER)
    container["command"] = ["python", "-m", "ringtrain.hold"]
    for field in ("ports", "livenessProbe", "readinessProbe"):
        del container[field]
    return made


def replica_environment(
    job: Job, spec: TrainingJobSpec, index: int, epoch: int, grace_seconds: float
) -> ReplicaEnvironment:
    """What the agent of replica `index` is told."""
    name, namespace = job.key.name, job.key.namespace
    return ReplicaEnvironment(
        job=name,
        namespace=namespace,
        replica=index,
        replicas=spec.replicas,
        procs_per_replica=spec.procs_per_replica,
        epoch=epoch,
        addresses=Addresses("dns", f"{name}.{name}.{namespace}.svc"),
        device=spec.device,
        timeouts=spec.fault_tolerance.timeouts,
        max_restarts=spec.fault_tolerance.max_restarts,
        in_place_restarts=spec.fault_tolerance.in_place_restarts,
        preflight=spec.fault_tolerance.preflight,
        grace_seconds=grace_seconds,
        termination_log=reserved.TERMINATION_LOG,
        checkpoint=_checkpoint_settings(name, spec, spec.checkpoint) if spec.checkpoint else None,
        communication=spec.communication,
        parallelism=spec.parallelism,
        trainer=spec.trainer,
        command=(*spec.command, *spec.args),
    )


def _metadata(job: Job, spec: TrainingJobSpec, index: int, epoch: int, group: str) -> dict[str, Any]:
    marked = marks(job.key.name, spec, group)
    own = metadata(job, pod_name(job.key.name, index, epoch))
    template = spec.template.metadata
    labels = {LABEL_REPLICA: str(index), LABEL_EPOCH: str(epoch)}
    scraping = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(AGENT_PORT),
        "prometheus.io/path": "/metrics",
    }
    own["labels"] = own["labels"] | template.labels | labels | marked.labels
    own["annotations"] = scraping | template.annotations | {ANNOTATION_SPEC: str(job.generation)} | marked.annotations
    return own


def _own_spec(job: Job, spec: TrainingJobSpec, index: int) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [
        {"name": reserved.SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": spec.shm_size}},
        {"name": reserved.TMP_VOLUME, "emptyDir": {}},
    ]
    if spec.checkpoint is not None:
        volume = spec.checkpoint.volume
        claim: dict[str, Any] = {"claimName": volume.claim_name or claim_name(job.key.name)}
        volumes.append({"name": reserved.CHECKPOINT_VOLUME, "persistentVolumeClaim": claim})
        if (other := _restore_claim(spec.checkpoint)) is not None:
            claim = {"claimName": other, "readOnly": True}
            volumes.append({"name": reserved.RESTORE_VOLUME, "persistentVolumeClaim": claim})
    return {
        "hostname": host_name(job.key.name, index),
        "subdomain": job.key.name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": volumes,
        "containers": [_container(spec)],
        **_scheduled_by(spec.scheduling),
    }


def _scheduled_by(scheduling: Scheduling) -> dict[str, Any]:
    given = {
        "schedulerName": scheduling.scheduler_name or ("volcano" if scheduling.gang == "Volcano" else None),
        "priorityClassName": scheduling.priority_class_name,
    }
    return {field: value for field, value in given.items() if value is not None}


def _container(spec: TrainingJobSpec) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [
        {"name": reserved.SHM_VOLUME, "mountPath": reserved.SHM_PATH},
        {"name": reserved.TMP_VOLUME, "mountPath": reserved.TMP_PATH},
    ]
    if spec.checkpoint is not None:
        mounts.append({"name": reserved.CHECKPOINT_VOLUME, "mountPath": reserved.CHECKPOINT_PATH})
        if _restore_claim(spec.checkpoint) is not None:
            mounts.append({"name": reserved.RESTORE_VOLUME, "mountPath": reserved.RESTORE_PATH, "readOnly": True})
    container = {
        "name": reserved.CONTAINER,
        "image": spec.image,
        "command": ["python", "-m", "ringtrain.agent"],
        "env": [],
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "resources": _resources(spec),
        "volumeMounts": mounts,
        "livenessProbe": _probe("/livez") | {"initialDelaySeconds": 10},
        "readinessProbe": _probe("/readyz"),
        "terminationMessagePath": reserved.TERMINATION_LOG,
        "terminationMessagePolicy": "File",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if spec.image_pull_policy is not None:
        container["imagePullPolicy"] = spec.image_pull_policy
    return container


def _probe(path: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": AGENT_PORT},
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }


def _resources(spec: TrainingJobSpec) -> dict[str, Any]:
    limits = dict(spec.resources.limits)
    if spec.device == "cuda":
        limits.setdefault(spec.gpu_resource, str(spec.procs_per_replica))
    return {"requests": dict(spec.resources.requests), "limits": limits}


def _checkpoint_settings(name: str, spec: TrainingJobSpec, checkpoint: CheckpointSpec) -> CheckpointSettings:
    # A subPath mount would not do: the kubelet makes its folder as root, and the trainer could not write there.
    folder = checkpoint.volume.sub_path or name
    return CheckpointSettings(
        directory=f"{reserved.CHECKPOINT_PATH}/{folder}",
        every=checkpoint.every,
        keep=checkpoint.keep,
        keep_every=checkpoint.keep_every,
        memory_every=checkpoint.memory_every,
        replicate=checkpoint.replicate,
        recovery=spec.fault_tolerance.recovery,
        save_on_preemption=checkpoint.save_on_preemption,
        warm_start=_warm_start(checkpoint.restore_from) if checkpoint.restore_from else None,
    )


def _warm_start(other: RestoreFrom) -> WarmStart:
    volume = reserved.RESTORE_PATH if other.claim_name is not None else reserved.CHECKPOINT_PATH
    directory = other.path if other.path.startswith("/") else f"{volume}/{other.path}"
    return WarmStart(directory=directory, optimizer=other.optimizer)


def _restore_claim(checkpoint: CheckpointSpec) -> str | None:
    return checkpoint.restore_from.claim_name if checkpoint.restore_from is not None else None
