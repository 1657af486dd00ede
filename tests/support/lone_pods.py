"""Jobs whose pods no scheduler knows: they are on no node, nothing runs in them, and tests say what becomes of them."""

import json
from typing import Any

from support.kube import JOB_LABEL, Kube, Object

SPEC: Object = {
    "image": "localhost/no-such:1",
    "replicas": 2,
    "device": "cpu",
    "command": ["train"],
    "faultTolerance": {"maxRestarts": 100},
    "template": {"spec": {"schedulerName": "nobody"}},
}
TIME = "2030-01-01T00:00:00Z"


def submit(kube: Kube, name: str, **fields: Any) -> None:
    spec = SPEC | fields
    kube.apply({"apiVersion": "ringtrain.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec})


def names(kube: Kube, job: str) -> list[str]:
    """Of its pods that have not ended."""
    pods = kube.all("pods", f"{JOB_LABEL}={job}")
    return sorted(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ("Pending", "Running"))


def runs(kube: Kube, pod: str) -> None:
    _becomes(kube, pod, "Running", {"running": {"startedAt": TIME}})


def ends(kube: Kube, pod: str, code: int) -> None:
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    _becomes(kube, pod, "Failed" if code else "Succeeded", state)


def _becomes(kube: Kube, pod: str, phase: str, state: Object) -> None:
    container: Object = {
        "name": "trainer",
        "image": "none",
        "imageID": "",
        "restartCount": 0,
        "ready": phase == "Running",
        "state": state,
    }
    status = {"phase": phase, "containerStatuses": [container]}
    kube.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
