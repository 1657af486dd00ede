"""Manifests of what a job owns beside its pods: the headless Service and the checkpoints' claim."""

from collections.abc import Mapping
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


def claim(job: Job, template: ClaimTemplate) -> dict[str, Any]:
    """The PersistentVolumeClaim that is deleted with the job."""
    spec: dict[str, Any] = {
        "accessModes": list(template.access_modes),
        "resources": {"requests": {"storage": template.storage}},
    }
    if template.storage_class_name is not None:
        spec["storageClassName"] = template.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(job, claim_name(job.key.name)),
        "spec": spec,
    }


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
