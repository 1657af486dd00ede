"""Jobs that compete for the nodes of a real cluster: each gets all of its pods, or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import lone_pods
from support.cluster import Cluster
from support.kube import JOB_LABEL, Kube, Object
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

SEAT = "example.com/seat"
"""Each node has one; each replica needs one."""
JOBS = ("a", "b", "c")


@pytest.fixture
def operator(
    cluster: Cluster, all_nodes: list[str], kube: Kube, no_operator: Kube, tmp_path: Path
) -> Iterator[OperatorProcess]:
    for node in all_nodes:
        cluster.advertise(node, SEAT, 1)
    kube.until("every node has its seat", lambda: all(seats(node) == "1" for node in cluster.kube().all("nodes")))
    try:
        with OperatorProcess(kube.namespace, tmp_path / "log").running(kube) as process:
            yield process
    finally:
        for node in all_nodes:
            cluster.advertise(node, SEAT, 0)


def seats(node: Object) -> str:
    return str(node["status"]["allocatable"].get(SEAT))


def submit(kube: Kube, name: str, **fields: object) -> None:
    spec = {
        "scheduling": {"gang": "Operator"},
        "resources": {"limits": {SEAT: 1}},
        # No image, and a long life: pods hold their nodes, and nothing runs in them.
        "imagePullPolicy": "Never",
        "template": {"spec": {"terminationGracePeriodSeconds": 1}},
    }
    lone_pods.submit(kube, name, **(spec | fields))


def nodes_of(kube: Kube, name: str) -> list[str]:
    """Of each pod of the job, in order; empty where it has none."""
    return sorted(str(pod["spec"].get("nodeName", "")) for pod in kube.all("pods", f"{JOB_LABEL}={name}"))


def status(kube: Kube, name: str) -> Object:
    found: Object = (kube.get("tj", name) or {}).get("status", {})
    return found


def tells(kube: Kube, name: str, words: str) -> None:
    """At last: pods that are about to end take room until then."""
    kube.until(f"{name} tells {words}", lambda: words in str(status(kube, name).get("message")))


def reason(kube: Kube, name: str) -> str:
    conditions = {each["type"]: each["reason"] for each in status(kube, name).get("conditions", [])}
    return str(conditions.get("Schedulable"))


def starts(kube: Kube, among: tuple[str, ...]) -> str:
    """The job that starts; all of its pods find a node, and none of the others has any."""
    winner = kube.until("one starts", lambda: next((job for job in among if nodes_of(kube, job)), None))
    kube.until(f"{winner} is whole", lambda: len(nodes_of(kube, winner)) == 2 and all(nodes_of(kube, winner)))
    others = [job for job in among if job != winner]
    kube.until("the others wait", lambda: all(reason(kube, job) == "NoRoom" for job in others))
    assert [nodes_of(kube, job) for job in others] == [[]] * len(others)
    return winner


def test_jobs_that_compete_start_whole_one_after_the_other(kube: Kube, operator: OperatorProcess) -> None:
    for job in JOBS:
        submit(kube, job)
    left: tuple[str, ...] = JOBS
    for _ in JOBS:
        winner = starts(kube, left)
        left = tuple(job for job in left if job != winner)
        for job in left:
            tells(kube, job, "2 pods need 2 example.com/seat, and 1 example.com/seat are free")
        kube.delete("tj", winner)
    assert not kube.events("GangBroken")


def test_a_node_that_comes_back_lets_a_job_start(kube: Kube, operator: OperatorProcess, all_nodes: list[str]) -> None:
    cordoned = all_nodes[:2]
    try:
        for node in cordoned:
            kube.kubectl("cordon", node)
        submit(kube, "a")
        tells(kube, "a", "on the 1 of 3 nodes")
        kube.kubectl("uncordon", cordoned[0])
        kube.until("it starts", lambda: nodes_of(kube, "a") == sorted([cordoned[0], all_nodes[2]]))
    finally:
        for node in cordoned:
            kube.kubectl("uncordon", node)


def test_pods_of_others_that_came_first_are_counted(kube: Kube, operator: OperatorProcess) -> None:
    for name in ("first", "second"):
        container = {"name": "main", "image": "localhost/no-such:1", "resources": {"limits": {SEAT: "1"}}}
        spec = {"containers": [container | {"imagePullPolicy": "Never"}], "terminationGracePeriodSeconds": 1}
        kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    submit(kube, "a")
    tells(kube, "a", "1 example.com/seat are free")
    assert nodes_of(kube, "a") == []
    kube.delete("pod", "first")
    kube.until("it starts", lambda: len(nodes_of(kube, "a")) == 2 and all(nodes_of(kube, "a")))
