"""What other schedulers are given, on a real API server with the kinds they bring. They do not run here themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import lone_pods
from support.healthy_cluster import HealthyCluster
from support.kube import JOB_LABEL, Kube, Object
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

JOB = "job"
TEMPLATE: Object = {"spec": {}}
"""Without the scheduler of lone pods."""
FIELDS = {
    "scheduling.volcano.sh/v1beta1": ("minMember", "queue", "priorityClassName"),
    "scheduling.x-k8s.io/v1alpha1": ("minMember",),
}


def crd(version: str) -> Object:
    """As far as the operator writes PodGroups of `version`; the API server drops all other fields."""
    group, number = version.split("/")
    types = {field: {"type": "integer" if field == "minMember" else "string"} for field in FIELDS[version]}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": types}}}
    of_group = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": {"api-approved.kubernetes.io": of_group}},
        "spec": {
            "group": group,
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [
                {"name": number, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


@pytest.fixture
def kube(healthy: HealthyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kube]:
    """Of a namespace with an operator."""
    kube = healthy.kube
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    try:
        with OperatorProcess(kube.namespace, tmp_path / "log").running(kube):
            yield kube
    finally:
        for version in FIELDS:
            kube.delete("crd", f"podgroups.{version.split('/')[0]}", "--ignore-not-found")


def install(kube: Kube, version: str) -> None:
    kube.apply(crd(version))
    kube.kubectl("wait", "--for=condition=Established", f"crd/podgroups.{version.split('/')[0]}", "--timeout=30s")


def submit(kube: Kube, replicas: int = 2, **scheduling: str) -> None:
    volume = {"claimTemplate": {"storage": "1Mi"}}
    fields = {"replicas": replicas, "scheduling": scheduling, "checkpoint": {"volume": volume}}
    lone_pods.submit(kube, JOB, template=TEMPLATE, **fields)


def pods(kube: Kube, *names: str) -> list[Object]:
    kube.until(f"the pods are {names}", lambda: lone_pods.names(kube, JOB) == sorted(names))
    found = {pod["metadata"]["name"]: pod for pod in kube.all("pods", f"{JOB_LABEL}={JOB}")}
    return [found[name] for name in names]


def group(kube: Kube, version: str) -> Object:
    kind, _ = version.split("/")
    found = kube.get(f"podgroups.{kind}", JOB)
    assert found is not None
    return found


def status(kube: Kube) -> Object:
    found: Object = (kube.get("tj", JOB) or {}).get("status", {})
    return found


def test_volcano(kube: Kube) -> None:
    version = "scheduling.volcano.sh/v1beta1"
    install(kube, version)
    submit(kube, gang="Volcano", queueName="team-a")
    for pod in pods(kube, "job-0-0", "job-1-0"):
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == JOB
        assert pod["spec"]["schedulerName"] == "volcano"
    made = group(kube, version)
    assert made["spec"] == {"minMember": 2, "queue": "team-a"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "TrainingJob"


def test_scheduler_plugins_whose_group_follows_the_job(kube: Kube) -> None:
    version = "scheduling.x-k8s.io/v1alpha1"
    install(kube, version)
    submit(kube, gang="Coscheduling", schedulerName="plugins")
    for pod in pods(kube, "job-0-0", "job-1-0"):
        assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == JOB
        assert pod["spec"]["schedulerName"] == "plugins"
    assert group(kube, version)["spec"] == {"minMember": 2}
    kube.kubectl("scale", "tj", JOB, "--replicas=3")
    pods(kube, "job-0-1", "job-1-1", "job-2-1")
    assert group(kube, version)["spec"] == {"minMember": 3}


def test_where_the_kind_is_missing_the_status_says_so_and_nothing_is_lost(kube: Kube) -> None:
    version = "scheduling.volcano.sh/v1beta1"
    submit(kube, gang="Volcano")
    kube.until("the status tells", lambda: f"no PodGroups of {version}" in str(status(kube).get("message")))
    assert lone_pods.names(kube, JOB) == []
    assert status(kube)["phase"] == "Pending"
    assert status(kube)["restarts"] == 0
    install(kube, version)
    pods(kube, "job-0-0", "job-1-0")


def test_kueue(kube: Kube) -> None:
    submit(kube, gang="Kueue", queueName="team-a")
    for pod in pods(kube, "job-0-0", "job-1-0"):
        lone_pods.runs(kube, pod["metadata"]["name"])
        assert marks(pod) == ("team-a", "job-0", "2")
    lone_pods.ends(kube, "job-1-0", 80)
    assert marks(pods(kube, "job-0-0", "job-1-1")[1]) == ("team-a", "job-0", "2")
    kube.until("the status tells that nobody cares", lambda: reason(kube) == "NotQueued")
    for pod in pods(kube, "job-0-0", "job-1-1"):
        kube.kubectl("label", "pod", pod["metadata"]["name"], "kueue.x-k8s.io/managed=true")
    kube.until("the status tells that Kueue cares", lambda: reason(kube) == "Queued")


def marks(pod: Object) -> tuple[str, str, str]:
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    return (
        labels["kueue.x-k8s.io/queue-name"],
        labels["kueue.x-k8s.io/pod-group-name"],
        annotations["kueue.x-k8s.io/pod-group-total-count"],
    )


def reason(kube: Kube) -> str:
    conditions = {each["type"]: each["reason"] for each in status(kube).get("conditions", [])}
    return str(conditions.get("Schedulable"))
