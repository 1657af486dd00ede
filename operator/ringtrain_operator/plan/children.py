"""Manifests of what a job owns beside its pods: its headless Service, its NetworkPolicy, the checkpoints' claim."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringtrain.contract.addresses import AGENT_PORT, COORDINATOR_PORT, STORE_PORT
from ringtrain_operator.api.spec import GROUP, KIND, VERSION, ClaimTemplate
from ringtrain_operator.plan.names import LABEL_JOB, claim_name
from ringtrain_operator.plan.observed import Job

PORTS: Mapping[str, int] = {"metrics": AGENT_PORT, "coordinator": COORDINATOR_PORT, "store": STORE_PORT}


def service(job: Job) -> dict[str, Any]:
    """The headless Service under which replicas find each other, before they are ready too."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, job.key.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_JOB: job.key.name},
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in PORTS.items()],
        },
    }


def network_policy(job: Job, agents_from: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Nobody but the job's own pods reaches them, but for `agents_from`, which may ask their agents.

    Pods of a job need all ports of each other: Gloo and MPI listen where the system has one free.
    """
    mine = {"matchLabels": {LABEL_JOB: job.key.name}}
    asking = {"from": list(agents_from), "ports": [{"protocol": "TCP", "port": AGENT_PORT}]}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, job.key.name),
        "spec": {
            "podSelector": mine,
            "policyTypes": ["Ingress"],
            # No `from` at all would be everybody.
            "ingress": [{"from": [{"podSelector": mine}]}, *([asking] if agents_from else [])],
        },
    }


def claim(job: Job, template: ClaimTemplate) -> dict[str, Any]:
    """The PersistentVolumeClaim that a job makes. One that is to be retained has no owner."""
    spec: dict[str, Any] = {
        "accessModes": list(template.access_modes),
        "resources": {"requests": {"storage": template.storage}},
    }
    if template.storage_class_name is not None:
        spec["storageClassName"] = template.storage_class_name
    own = metadata(job, claim_name(job.key.name))
    if template.when_deleted == "Retain":
        del own["ownerReferences"]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": spec}


def metadata(job: Job, name: str) -> dict[str, Any]:
    """Name, labels and owner of a child."""
    return {
        "name": name,
        "namespace": job.key.namespace,
        "labels": {
            LABEL_JOB: job.key.name,
            "app.kubernetes.io/name": "ringtrain",
            "app.kubernetes.io/instance": job.key.name,
            "app.kubernetes.io/component": "trainer",
            "app.kubernetes.io/managed-by": "ringtrain-operator",
        },
        "ownerReferences": [
            {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": KIND,
                "name": job.key.name,
                "uid": job.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
