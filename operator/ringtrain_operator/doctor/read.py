"""From objects as the API gives them to facts. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ringtrain_operator.api.quantity import quantity
from ringtrain_operator.api.spec import VERSION
from ringtrain_operator.cluster import convert
from ringtrain_operator.doctor.facts import Crd, Operator, StorageClass, Volume, WaitingPod
from ringtrain_operator.doctor.fields import fields_of
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import PodPhase

Object = Mapping[str, Any]

_WATCHED, _NODES, _LEASE = (f"RINGTRAIN_{name}" for name in ("WATCH_NAMESPACES", "WATCH_NODES", "LEASE"))
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def crd_of(raw: Object) -> Crd:
    versions = raw["spec"]["versions"]
    ours: Object = next((version for version in versions if version["name"] == VERSION), {})
    conditions = (raw.get("status") or {}).get("conditions") or []
    return Crd(
        served=tuple(version["name"] for version in versions if version["served"]),
        established=any(c["type"] == "Established" and c["status"] == "True" for c in conditions),
        fields=fields_of((ours.get("schema") or {}).get("openAPIV3Schema") or {}),
    )


def operator_of(raw: Object, pods: Iterable[Object]) -> Operator:
    """From a Deployment and the pods of its labels."""
    template = raw["spec"]["template"]["spec"]
    container = template["containers"][0]
    environment = {entry["name"]: entry.get("value") or "" for entry in container.get("env") or ()}
    return Operator(
        namespace=raw["metadata"]["namespace"],
        name=raw["metadata"]["name"],
        image=container["image"],
        wanted=raw["spec"].get("replicas", 1),
        ready=(raw.get("status") or {}).get("readyReplicas", 0),
        watched=tuple(filter(None, environment.get(_WATCHED, "").split(","))),
        account=template.get("serviceAccountName", "default"),
        lease=environment.get(_LEASE, ""),
        watches_nodes=environment.get(_NODES, "true") == "true",
        trouble=tuple(dict.fromkeys(filter(None, map(_trouble, pods)))),
    )


def _trouble(pod: Object) -> str:
    """What keeps a pod from being ready, as far as it tells."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            last = ((container.get("lastState") or {}).get("terminated") or {}).get("message", "")
            return ": ".join(filter(None, (waiting["reason"], waiting.get("message"), last)))
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


def waiting_of(raw: Object) -> WaitingPod | None:
    """None of a pod that does not wait for its container."""
    pod = convert.pod(raw, "")
    if pod is None or pod.phase is not PodPhase.PENDING or not pod.waiting_reason:
        return None
    return WaitingPod(
        job=raw["metadata"]["labels"][LABEL_JOB],
        name=pod.name,
        image=raw["spec"]["containers"][0]["image"],
        reason=pod.waiting_reason,
        message=pod.waiting_message,
    )


def class_of(raw: Object) -> StorageClass:
    annotations = raw["metadata"].get("annotations") or {}
    return StorageClass(
        name=raw["metadata"]["name"],
        provisioner=raw["provisioner"],
        is_default=annotations.get(_DEFAULT_CLASS) == "true",
    )


def volume_of(raw: Object) -> Volume:
    return Volume(
        storage_class=raw["spec"].get("storageClassName") or "",
        modes=tuple(raw["spec"].get("accessModes") or ()),
        is_free=(raw.get("status") or {}).get("phase") == "Available",
    )


def gpus_of(nodes: Iterable[Object]) -> Mapping[str, int]:
    """Devices (a resource with a domain) of all ready nodes; huge pages and attachable volumes are none."""
    found: Counter[str] = Counter()
    for raw in nodes:
        if convert.node(raw).ready and not raw["spec"].get("unschedulable"):
            for resource, amount in ((raw.get("status") or {}).get("allocatable") or {}).items():
                if "/" in resource:
                    found[resource] += int(quantity(amount))
    return {resource: number for resource, number in found.items() if number}


def networks_of(nodes: Iterable[Object]) -> tuple[str, ...]:
    """CIDRs of the nodes' pods."""
    found = (raw["spec"].get("podCIDRs") or [raw["spec"].get("podCIDR")] for raw in nodes)
    return tuple(dict.fromkeys(network for networks in found for network in networks if network))


def ready_addresses(endpoints: Object) -> int:
    return sum(len(subset.get("addresses") or ()) for subset in endpoints.get("subsets") or ())
