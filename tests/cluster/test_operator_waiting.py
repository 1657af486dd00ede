"""Jobs that cannot run, or cannot run yet, say why."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from operator_.api.spec_table import BAD, Bad
from support.cluster import Cluster
from support.kube import Object
from support.tools import CommandError
from support.trial import Trial

pytestmark = pytest.mark.cluster

JOB = "job"
GPU = "example.com/gpu"
SHORT = {"rounds": 10}
"""A trainer, for what matters before training."""


def messages(trial: Trial) -> list[str]:
    return [event["message"] for event in trial.events(JOB) if event["type"] == "Warning"]


def test_gpu_pods_wait_until_there_are_gpus(trial: Trial, cluster: Cluster) -> None:
    trial.submit(JOB, trial.nano(replicas=1, device="cuda", gpuResource=GPU, procsPerReplica=2))
    status = trial.until(
        "the status tells of GPUs", lambda: s if GPU in (s := trial.status(JOB)).get("message", "") else None
    )
    assert status["phase"] == "Pending"
    assert f"Insufficient {GPU}" in status["message"]
    assert "replica 0" in status["message"]
    (pod,) = trial.pods(JOB)
    assert pod["spec"]["containers"][0]["resources"]["limits"][GPU] == "2"
    node = cluster.kube().all("nodes")[0]["metadata"]["name"]
    cluster.advertise(node, GPU, 2)
    try:
        placed = trial.until("the pod is scheduled", lambda: trial.pods(JOB)[0]["spec"].get("nodeName"))
        assert placed == node
        trial.until("the status follows", lambda: GPU not in trial.message(JOB))
    finally:
        cluster.advertise(node, GPU, 0)


def test_an_unknown_image_is_told_and_can_be_corrected(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(image="localhost/no-such-image:1", trainer=SHORT))
    # The pods back off at different times; both do in the end.
    trial.until("the status tells of both", lambda: "replicas 0-1: ImagePullBackOff" in trial.message(JOB))
    assert "localhost/no-such-image:1" in trial.message(JOB)
    assert trial.status(JOB)["phase"] == "Pending"
    trial.submit(JOB, trial.nano(trainer=SHORT))
    status = trial.until_phase(JOB, "Succeeded", "Failed")
    assert (status["phase"], status["countedRestarts"]) == ("Succeeded", 0)


def test_a_missing_claim_is_waited_for_without_any_pod(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(checkpoint={"volume": {"claimName": "team"}}, trainer=SHORT))
    trial.until("the status tells of the claim", lambda: "team" in trial.message(JOB))
    assert trial.pods(JOB) == []
    trial.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "team"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    trial.until_phase(JOB, "Succeeded")
    trial.kube.kubectl("delete", "tj", JOB)
    assert "team" in trial.kube.kubectl("get", "pvc", "team")


def test_a_quota_that_refuses_pods_is_told(trial: Trial) -> None:
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    trial.kube.apply(quota | {"spec": {"hard": {"pods": "1"}}})
    trial.until(
        "the quota works", lambda: "pods" in trial.kube.kubectl("get", "quota", "few", "-o", "jsonpath={.status.hard}")
    )
    trial.submit(JOB, trial.nano(trainer=SHORT))
    trial.until("the status tells of the quota", lambda: "exceeded quota" in trial.message(JOB))
    assert any("exceeded quota" in message for message in messages(trial))
    trial.kube.kubectl("delete", "quota", "few")
    trial.until_phase(JOB, "Succeeded")


def test_wrong_specs_give_one_clear_message_each_and_no_children(trial: Trial) -> None:
    stored: dict[str, Bad] = {}
    # kubectl takes null for a field that is not set, so those specs arrive without it.
    for index, bad in enumerate(bad for bad in BAD if "null" not in json.dumps(bad.spec)):
        name = bad.name if bad.path == "metadata.name" else f"bad-{index}"
        refusal = refused(trial, name, bad.spec)
        # By the schema, or by kubectl, which looks at fields before it sends them.
        if refusal:
            assert last_field(bad.path) in refusal, bad.title
        else:
            stored[name] = bad
    for name, bad in stored.items():
        status = trial.until_phase(name, "Invalid")
        assert bad.path in status["message"], bad.title
        assert bad.words in status["message"], bad.title
        (event,) = trial.until(f"an event tells of {bad.title}", lambda job=name: trial.events(job))  # type: ignore[misc]
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "InvalidSpec", status["message"])
        assert trial.children(name) == [], bad.title
    assert len(stored) > 20
    assert status["message"] in trial.kube.kubectl("describe", "tj", name)


def refused(trial: Trial, name: str, spec: Object) -> str:
    """What is said at kubectl apply; empty when the job was stored."""
    try:
        trial.submit(name, spec)
    except CommandError as error:
        return str(error)
    return ""


def last_field(path: str) -> str:
    return path.partition("[")[0].rpartition(".")[2]


def test_a_corrected_spec_goes_on(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(template={"spec": {"hostNetwork": True}}, trainer=SHORT))
    trial.until_phase(JOB, "Invalid")
    trial.submit(JOB, trial.nano(template={"spec": {}}, trainer=SHORT))
    trial.until_phase(JOB, "Succeeded")


def test_health_and_metrics_of_the_operator(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(trainer=SHORT))
    trial.until_phase(JOB, "Succeeded")
    assert trial.operator.get(trial.operator.health_port, "/healthz") == (200, "ok\n")
    labels = {"namespace": trial.kube.namespace, "training_job": JOB}
    assert sample(trial, "ringtrain_job_round", labels) == SHORT["rounds"]
    assert sample(trial, "ringtrain_job_phase", labels | {"phase": "Succeeded"}) == 1
    assert (sample(trial, "ringtrain_operator_reconcile_total", {"result": "success"}) or 0) > 3
    trial.kube.kubectl("delete", "tj", JOB)
    trial.until("the job's series are gone", lambda: sample(trial, "ringtrain_job_round", labels) is None)


def sample(trial: Trial, name: str, labels: dict[str, str]) -> float | None:
    status, text = trial.operator.get(trial.operator.metrics_port, "/metrics")
    assert status == 200
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return next((sample.value for sample in samples if (sample.name, sample.labels) == (name, labels)), None)
