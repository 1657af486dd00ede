"""Kubernetes events about a job. Repeats of the same words are counted on one event, whoever posted it first."""

import hashlib
from datetime import UTC, datetime
from typing import Any

from ringtrain_operator.api.spec import GROUP, KIND, VERSION
from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.plan.observed import Job
from ringtrain_operator.plan.result import Event

COMPONENT = "ringtrain-operator"
_LONGEST_MESSAGE = 1024
_NAME_LENGTH = 190
"""Of the job's part in the event's name, which is at most 253 characters long."""


async def post(api: KubernetesApi, job: Job, event: Event, now: datetime) -> None:
    """Raises ApiError."""
    manifest = _manifest(job, event, now)
    path, name = f"/api/v1/namespaces/{job.key.namespace}/events", manifest["metadata"]["name"]
    try:
        await api.request("POST", path, body=manifest)
        return
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    # The answer to the first patch tells the count: no right to read events is needed.
    known = await api.request("PATCH", f"{path}/{name}", body={"lastTimestamp": manifest["lastTimestamp"]})
    await api.request("PATCH", f"{path}/{name}", body={"count": known.get("count", 1) + 1})


def _manifest(job: Job, event: Event, now: datetime) -> dict[str, Any]:
    message = event.message if len(event.message) <= _LONGEST_MESSAGE else event.message[: _LONGEST_MESSAGE - 3] + "..."
    words = "\n".join((job.uid, event.type, event.reason, message))
    time = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.key.name[:_NAME_LENGTH]}.{hashlib.sha256(words.encode()).hexdigest()[:16]}",
            "namespace": job.key.namespace,
        },
        "involvedObject": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "namespace": job.key.namespace,
            "name": job.key.name,
            "uid": job.uid,
            "resourceVersion": job.resource_version,
        },
        "type": event.type,
        "reason": event.reason,
        "message": message,
        "source": {"component": COMPONENT},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
