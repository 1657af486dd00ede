"""Where a replacement finds no node: the job trains on with fewer replicas, or a spare gives its place."""

from typing import Any

import pytest

from ringtrain_operator.plan.names import LABEL_HOLDING
from support.cluster import Cluster
from support.kube import JOB_LABEL, Object
from support.trial import Trial

pytestmark = pytest.mark.cluster

JOB = "job"
ENDLESS = {"rounds": 100000}


def submit(trial: Trial, **fields: Any) -> None:
    """Of which each node takes one pod only."""
    apart = {
        "labelSelector": {"matchLabels": {JOB_LABEL: JOB}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    trial.submit(JOB, trial.nano(trainer=ENDLESS, template={"spec": {"affinity": affinity}}, **fields))


def node_of(trial: Trial, pod: str) -> str:
    return str((trial.kube.get("pod", pod) or {})["spec"]["nodeName"])


def until_trains(trial: Trial, replicas: int, beyond: int = 0) -> Object:
    """Until so many train, and have finished rounds after `beyond`."""

    def reached() -> Object | None:
        status = trial.status(JOB)
        right = status.get("phase") == "Running" and len(status["members"]) == replicas
        return status if right and status["round"] > beyond else None

    return trial.until(f"{replicas} replicas train", reached)


def test_a_job_trains_smaller_while_a_node_is_lost_and_grows_when_it_is_back(
    trial: Trial, cluster: Cluster, all_nodes: list[str]
) -> None:
    elastic = {"minReplicas": 2, "waitSeconds": 3, "growAfterSeconds": 5}
    submit(trial, replicas=len(all_nodes), elastic=elastic, faultTolerance={"nodeLossSeconds": 5})
    full = until_trains(trial, len(all_nodes), beyond=10)
    lost = node_of(trial, f"{JOB}-0-0")
    cluster.kill_node(lost)
    small = until_trains(trial, len(all_nodes) - 1)
    assert (small["reduced"]["replicas"], small["reduced"]["of"]) == (len(all_nodes) - 1, len(all_nodes))
    # It went on from a checkpoint on the volume.
    assert small["round"] >= full["round"] - 5
    assert lost not in {pod["spec"].get("nodeName") for pod in trial.live_pods(JOB)}
    # A pod that holds a place looks for a node meanwhile, and finds none.
    trial.until("a place is looked for", lambda: holders(trial) != [])
    assert until_trains(trial, len(all_nodes) - 1, beyond=small["round"])["reduced"]
    cluster.start_node(lost)
    grown = until_trains(trial, len(all_nodes), beyond=small["round"])
    assert "reduced" not in grown
    assert {pod["spec"]["nodeName"] for pod in trial.live_pods(JOB)} == set(all_nodes)
    assert {event["reason"] for event in trial.events(JOB)} >= {"NodeLost", "Reduced", "Grown"}


def test_a_spare_gives_its_place_to_a_pod_that_was_deleted(
    trial: Trial, cluster: Cluster, all_nodes: list[str]
) -> None:
    submit(trial, replicas=len(all_nodes) - 1, spareReplicas=1)
    before = until_trains(trial, len(all_nodes) - 1, beyond=10)
    place = trial.until("the spare runs", lambda: [h for h in holders(trial) if h["status"]["phase"] == "Running"])
    spare = place[0]["spec"]["nodeName"]
    closed = node_of(trial, f"{JOB}-1-0")
    assert spare != closed
    cluster.kube().kubectl("cordon", closed)
    try:
        trial.kube.delete("pod", f"{JOB}-1-0", "--wait=false")
        trial.until("it is replaced", lambda: trial.status(JOB)["restarts"] == 1)
        after = until_trains(trial, len(all_nodes) - 1, beyond=before["round"])
        assert node_of(trial, f"{JOB}-1-1") == spare
    finally:
        cluster.kube().kubectl("uncordon", closed)
    assert after["epoch"] == 1
    trial.until("a new spare runs", lambda: [h["spec"].get("nodeName") for h in holders(trial)] == [closed])


def holders(trial: Trial) -> list[Object]:
    return trial.kube.all("pods", f"{JOB_LABEL}={JOB},{LABEL_HOLDING}=true")
