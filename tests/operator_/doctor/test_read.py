from typing import Any

from ringtrain_operator.doctor import read
from ringtrain_operator.doctor.facts import WaitingPod

ENVIRONMENT = [
    {"name": "RINGTRAIN_WATCH_NAMESPACES", "value": "a,b"},
    {"name": "RINGTRAIN_LEASE", "value": "system/lease"},
    {"name": "RINGTRAIN_WATCH_NODES", "value": "false"},
    {"name": "OTHER", "valueFrom": {}},
]
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"namespace": "system", "name": "ringtrain"},
    "spec": {
        "replicas": 1,
        "template": {
            "spec": {
                "serviceAccountName": "account",
                "containers": [{"image": "i", "env": ENVIRONMENT}],
            }
        },
    },
}


def test_an_operator() -> None:
    found = read.operator_of(DEPLOYMENT, [])
    assert (str(found), found.image, found.account) == ("system/ringtrain", "i", "account")
    assert (found.wanted, found.ready, found.watched, found.trouble) == (1, 0, ("a", "b"), ())
    assert (found.lease, found.watches_nodes) == ("system/lease", False)


def test_what_its_pods_wait_for() -> None:
    def pod(waiting: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"status": {"containerStatuses": [{"state": {"waiting": waiting}, **more}]}}

    crashed = {"lastState": {"terminated": {"message": "BadSettings"}}}
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    pods = [
        pod({"reason": "ContainerCreating"}),
        pod({"reason": "CrashLoopBackOff", "message": "back-off"}, **crashed),
        {"status": {"conditions": [unscheduled]}},
        {},
    ]
    assert read.operator_of(DEPLOYMENT, pods).trouble == (
        "CrashLoopBackOff: back-off: BadSettings",
        "Unschedulable: 0/3 nodes",
    )


def test_waiting_pods() -> None:
    waiting = {"reason": "ErrImagePull", "message": "not found"}
    raw: dict[str, Any] = {
        "metadata": {
            "name": "gpt-0-0",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"ringtrain.io/job": "gpt"},
        },
        "spec": {"containers": [{"name": "trainer", "image": "wrong"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "trainer", "state": {"waiting": waiting}}]},
    }
    assert read.waiting_of(raw) == WaitingPod(
        job="gpt", name="gpt-0-0", image="wrong", reason="ErrImagePull", message="not found"
    )
    assert read.waiting_of({**raw, "status": {"phase": "Running"}}) is None
    assert read.waiting_of({**raw, "metadata": {**raw["metadata"], "name": "other"}}) is None


def test_devices_of_ready_nodes() -> None:
    def node(ready: str, count: str, **spec: Any) -> dict[str, Any]:
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        allocatable = {"cpu": "4", "hugepages-2Mi": "1Gi", "nvidia.com/gpu": count, "amd.com/gpu": "0"}
        return {
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
            "status": {"conditions": [condition], "allocatable": allocatable},
        }

    nodes = [node("True", "4"), node("True", "4"), node("False", "4"), node("True", "4", unschedulable=True)]
    assert read.gpus_of(nodes) == {"nvidia.com/gpu": 8}


def test_networks() -> None:
    nodes: list[dict[str, Any]] = [
        {"spec": {"podCIDR": "10.1.0.0/24"}},
        {"spec": {"podCIDRs": ["10.2.0.0/24", "fd00::/64"]}},
        {"spec": {}},
    ]
    assert read.networks_of(nodes) == ("10.1.0.0/24", "10.2.0.0/24", "fd00::/64")


def test_crds() -> None:
    schema: dict[str, Any] = {
        "openAPIV3Schema": {"properties": {"spec": {"properties": {"a": {"items": {"properties": {"b": {}}}}}}}}
    }
    raw: dict[str, Any] = {
        "spec": {
            "versions": [
                {"name": "v1alpha1", "served": True, "schema": schema},
                {"name": "v0", "served": False},
            ]
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    crd = read.crd_of(raw)
    assert (crd.served, crd.established) == (("v1alpha1",), True)
    assert crd.fields == {"spec", "spec.a", "spec.a[]", "spec.a[].b"}
    assert read.crd_of({"spec": {"versions": []}}).fields == frozenset()


def test_addresses() -> None:
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}]}, {}]
    assert read.ready_addresses({"subsets": subsets}) == 1
    assert read.ready_addresses({}) == 0
