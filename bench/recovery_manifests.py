"""What the cluster's recovery benchmark applies: the same four ranks as a TrainingJob, and as StatefulSets: pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery_results import RANKS
from recovery_work import CONFIG, HANG_SECONDS

Object = dict[str, Any]

JOB = "bench"
RENDEZVOUS_PORT = 29400
_CODE = "code"
STATE = "state"
"""The claim for the workers' checkpoints."""
_RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}}


def training_job(image: str) -> Object:
    """All defaults, but for the time-out that the peers have too, and gradients in 32 bits."""
    return {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": JOB},
        "spec": {
            "image": image,
            "replicas": RANKS,
            "device": "cpu",
            "trainer": CONFIG.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "communication": {"codec": "none"},
            "checkpoint": {"volume": {"claimTemplate": {"storage": "1Gi"}}},
            "faultTolerance": {"timeouts": {"training": HANG_SECONDS}, "maxRestarts": 1000},
        },
    }


def spread_job(image: str) -> Object:
    """The same for a cluster: over all nodes alike, its claim for nobody after it."""
    job = training_job(image)
    job["spec"]["checkpoint"]["volume"]["claimTemplate"]["whenDeleted"] = "Delete"
    placed = {"topologySpreadConstraints": [_spread({"ringtrain.io/job": JOB})]}
    job["spec"] |= {"resources": _RESOURCES, "template": {"spec": placed}}
    return job


def code(files: Mapping[str, str]) -> Object:
    """The workers' programs."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _CODE}, "data": dict(files)}


def claim() -> Object:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "resources": resources}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": STATE}, "spec": spec}


def stateful_set(
    name: str, image: str, command: Sequence[str], *, replicas: int, env: Mapping[str, str], whole_host: bool = False
) -> list[Object]:
    """With the Service that gives its pods their names. Pods start at once, and on all nodes alike. `whole_host`: what
    asks for its host's name is told one that others can resolve; Linux has room for 64 characters."""
    labels = {"app": name}
    mounts = [{"name": _CODE, "mountPath": "/bench"}, {"name": STATE, "mountPath": "/state"}]
    variables = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "HOME": "/tmp", **env}
    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "env": [_POD_NAME, *({"name": key, "value": value} for key, value in variables.items())],
        "volumeMounts": mounts,
        "resources": _RESOURCES,
    }
    volumes = [
        {"name": _CODE, "configMap": {"name": _CODE}},
        {"name": STATE, "persistentVolumeClaim": {"claimName": STATE}},
    ]
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [container],
            "volumes": volumes,
            "topologySpreadConstraints": [_spread(labels)],
            "terminationGracePeriodSeconds": 30,
            "setHostnameAsFQDN": whole_host,
        },
    }
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": pod,
    }
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec},
    ]


_POD_NAME = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def _spread(labels: Mapping[str, str]) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(labels)},
    }
