"""The README's road: the chart by Helm, the example by kubectl, and what may happen to it in mid-training."""

from pathlib import Path

import pytest
import yaml

from support.cluster import Cluster, Images, ready_nodes
from support.kube import JOB_LABEL, Kube, Object
from support.prometheus import Prometheus

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt-text.yaml"
JOB = "gpt-text"
PATIENCE = 300.0
KILL_RANKS = """
import json, os, signal, urllib.request
for rank in json.load(urllib.request.urlopen("http://127.0.0.1:8470/status"))["ranks"]:
    os.kill(rank["pid"], signal.SIGKILL)
"""
FLIP_BYTE = """
import pathlib
newest = max(pathlib.Path("/checkpoints").glob("*/round-*"))
(path := max(newest.glob("*.safetensors"), key=lambda file: file.stat().st_size)).write_bytes(
    (data := path.read_bytes())[:-1] + bytes([data[-1] ^ 1])
)
print(newest.name)
"""


def example(images: Images, rounds: int) -> Object:
    job: Object = yaml.safe_load(EXAMPLE.read_text())
    job["spec"]["image"] = images.trainer
    job["spec"]["trainer"]["rounds"] = rounds
    job["spec"]["checkpoint"]["volume"]["claimTemplate"]["whenDeleted"] = "Delete"
    # A lost node is noticed in seconds, so that the test need not wait longer.
    job["spec"].setdefault("faultTolerance", {})["nodeLossSeconds"] = 5
    return job


def status(kube: Kube) -> Object:
    found: Object = (kube.get("tj", JOB) or {}).get("status", {})
    return found


def until_round(kube: Kube, round: int) -> Object:
    def there() -> Object | None:
        now = status(kube)
        assert now.get("phase") != "Failed", now
        return now if now.get("round", 0) >= round else None

    return kube.until(f"round {round}", there, PATIENCE)


def until_restarts(kube: Kube, restarts: int) -> Object:
    """Until that many restarts are behind it and it trains again, further than before."""
    reached = status(kube).get("round", 0)

    def there() -> Object | None:
        now = status(kube)
        assert now.get("phase") != "Failed", now
        again = now.get("restarts", 0) >= restarts and now.get("phase") == "Running"
        return now if again and now.get("round", 0) > reached else None

    return kube.until(f"{restarts} restarts and training on", there, PATIENCE)


def until_succeeded(kube: Kube) -> Object:
    def there() -> Object | None:
        now = status(kube)
        return now if now.get("phase") in ("Succeeded", "Failed") else None

    ended = kube.until("the job's end", there, PATIENCE)
    assert ended["phase"] == "Succeeded", ended
    return ended


def pod_of(kube: Kube, replica: int) -> Object:
    """The running pod of a replica."""

    def there() -> Object | None:
        pods = kube.all("pods", f"{JOB_LABEL}={JOB},ringtrain.io/replica={replica}")
        return next((pod for pod in pods if pod["status"]["phase"] == "Running"), None)

    return kube.until(f"a running pod of replica {replica}", there)


def test_the_example_survives_a_kill_a_deletion_and_the_loss_of_a_node(
    operator: Kube, kube: Kube, cluster: Cluster, images: Images, all_nodes: list[str]
) -> None:
    kube.apply(example(images, rounds=800))

    until_round(kube, 6)
    kube.exec(pod_of(kube, 1)["metadata"]["name"], "python", "-c", KILL_RANKS)
    until_restarts(kube, 1)

    kube.delete("pod", pod_of(kube, 2)["metadata"]["name"], "--wait=false")
    until_restarts(kube, 2)

    # Not the operator's own node: that is another test's business.
    (operator_pod,) = operator.all("pods", selector="app.kubernetes.io/component=operator")
    safe = operator_pod["spec"]["nodeName"]
    lost = next(node for replica in range(3) if (node := pod_of(kube, replica)["spec"]["nodeName"]) != safe)
    cluster.kill_node(lost)
    after = until_restarts(kube, 3)

    reasons = [failure["reason"] for failure in after["failures"]]
    # A pod that was deleted may have saved and ended before the operator looks.
    assert reasons[0] == "Signal9"
    assert reasons[1] in ("PodDeleted", "Preempted")
    assert set(reasons[2:]) == {"NodeLost"}
    assert after["countedRestarts"] == 1
    assert after["failures"][0]["rank"] == 1
    assert all(failure["node"] == lost for failure in after["failures"][2:])

    ended = until_succeeded(kube)
    assert (ended["round"], ended["totalRounds"], ended["progress"]) == (800, 800, "800/800")
    assert ended["lastCheckpoint"]["round"] == 800
    # Pods that a node takes along are one restart.
    assert ended["restarts"] == after["restarts"] <= len(ended["failures"])
    assert float(ended["loss"]) < 3.0
    assert ended["communication"]["codec"].startswith("zfp-")
    assert float(ended["communication"]["ratio"]) > 4
    assert ended["communication"]["share"].endswith("%")

    cluster.start_node(lost)
    assert lost in ready_nodes(kube)
    kube.delete("tj", JOB)
    kube.until(
        "nothing of the job to be left",
        lambda: not kube.all("pods,services,persistentvolumeclaims", f"{JOB_LABEL}={JOB}"),
    )


def test_a_flipped_byte_costs_one_checkpoint_and_is_told(operator: Kube, kube: Kube, images: Images) -> None:
    job = example(images, rounds=800)
    # The volume is only read where nothing lies in memory, and ranks that are stopped are to stay so.
    job["spec"]["checkpoint"]["memoryEvery"] = 0
    job["spec"]["faultTolerance"]["inPlaceRestarts"] = 0
    kube.apply(job)
    until_round(kube, 11)
    name = pod_of(kube, 1)["metadata"]["name"]
    # No checkpoint newer than the damaged one may be committed before everyone goes back: stop the trainers first.
    for replica in range(3):
        kube.exec(pod_of(kube, replica)["metadata"]["name"], "python", "-c", KILL_RANKS.replace("SIGKILL", "SIGSTOP"))
    damaged = kube.exec(name, "python", "-c", FLIP_BYTE).strip()
    kube.exec(pod_of(kube, 2)["metadata"]["name"], "python", "-c", KILL_RANKS.replace("SIGKILL", "SIGCONT"))
    kube.exec(pod_of(kube, 0)["metadata"]["name"], "python", "-c", KILL_RANKS.replace("SIGKILL", "SIGCONT"))
    kube.delete("pod", name, "--wait=false", "--grace-period=1")

    def told() -> Object | None:
        return next((each for each in status(kube).get("warnings", []) if each["reason"] == "CheckpointDamaged"), None)

    warning = kube.until("a warning of the damaged checkpoint", told, PATIENCE)
    assert f"round {int(damaged.split('.')[0].removeprefix('round-'))}:" in warning["message"]
    assert "using round" in warning["message"]
    kube.until("an event of it", lambda: kube.events("CheckpointDamaged"))
    until_restarts(kube, 1)


def test_prometheus_sees_the_training(operator: Kube, kube: Kube, images: Images, prometheus: Prometheus) -> None:
    kube.apply(example(images, rounds=800))
    until_round(kube, 5)
    labels = f'namespace="{kube.namespace}",training_job="{JOB}"'
    rounds = prometheus.until(f"ringtrain_round{{{labels}}} > 0", PATIENCE)
    assert {dict(key)["replica"] for key in rounds} <= {"0", "1", "2"}
    assert prometheus.until(f"ringtrain_loss{{{labels}}} > 0", PATIENCE)
    beats = prometheus.until(f"count(ringtrain_heartbeat_age_seconds{{{labels}}}) == 3", PATIENCE)
    assert list(beats.values()) == [3.0]
    sent, raw = (
        f'sum(ringtrain_communication_{kind}_bytes_total{{{labels},link="inter"}})' for kind in ("sent", "raw")
    )
    # In one query, for both start over when the warm-up ends.
    assert prometheus.until(f"{sent} > 0 and {sent} < {raw}", PATIENCE)
    told = f'ringtrain_job_round{{namespace="{kube.namespace}",training_job="{JOB}"}} > 0'
    assert len(prometheus.until(told, PATIENCE)) == 1
