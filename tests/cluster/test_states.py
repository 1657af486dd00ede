"""What stands in a job's way, as real API servers and schedulers say it: the status tells, and what to do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support import lone_pods
from support.kube import JOB_LABEL, Kube, Object
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

JOB = "job"
Told = Callable[..., None]


@pytest.fixture
def operator(kube: Kube, no_operator: Kube, tmp_path: Path) -> Iterator[OperatorProcess]:
    with OperatorProcess(kube.namespace, tmp_path / "log").running(kube) as process:
        yield process


@pytest.fixture
def told(kube: Kube, operator: OperatorProcess) -> Told:
    """Waits until the status has all of some words."""

    def wait(*words: str) -> None:
        kube.until(f"the status tells {words}", lambda: all(word in str(status(kube).get("message")) for word in words))

    return wait


def status(kube: Kube) -> Object:
    found: Object = (kube.get("tj", JOB) or {}).get("status", {})
    return found


def until_pods(kube: Kube, *names: str) -> None:
    kube.until(f"the pods are {names}", lambda: lone_pods.names(kube, JOB) == sorted(names))


def test_a_missing_service_account(kube: Kube, told: Told) -> None:
    spec = {"schedulerName": "nobody", "serviceAccountName": "trainer"}
    lone_pods.submit(kube, JOB, template={"spec": spec})
    told("replicas 0-1", 'serviceaccount "trainer" not found', "create the service account")
    kube.kubectl("create", "serviceaccount", "trainer")
    until_pods(kube, "job-0-0", "job-1-0")
    told("waiting for replicas 0-1 to run")


def test_a_quota_that_is_used_up(kube: Kube, told: Told) -> None:
    kube.kubectl("create", "quota", "few", "--hard=pods=1")
    kube.until("the quota works", lambda: (kube.get("quota", "few") or {}).get("status", {}).get("hard"))
    lone_pods.submit(kube, JOB)
    told("exceeded quota: few", "kubectl describe quota")
    kube.kubectl("delete", "quota", "few")
    until_pods(kube, "job-0-0", "job-1-0")


def test_a_claim_that_gets_no_volume(kube: Kube, told: Told) -> None:
    volume = {"claimTemplate": {"storage": "1Gi", "storageClassName": "no-such"}}
    lone_pods.submit(kube, JOB, checkpoint={"volume": volume}, template={"spec": {}})
    told("replicas 0-1", "unbound immediate PersistentVolumeClaims", "kubectl describe pvc")
    assert status(kube)["phase"] == "Pending"


def test_pods_that_fit_on_no_node(kube: Kube, told: Told) -> None:
    lone_pods.submit(kube, JOB, template={"spec": {"nodeSelector": {"no": "such"}}})
    told("replicas 0-1", "0/", "correct nodeSelector")


def test_a_namespace_that_is_being_deleted(kube: Kube, operator: OperatorProcess, told: Told) -> None:
    lone_pods.submit(kube, JOB)
    until_pods(kube, "job-0-0", "job-1-0")
    for pod in ("job-0-0", "job-1-0"):
        lone_pods.runs(kube, pod)
    # Something else keeps the namespace, and the job in it: the namespace's end takes what it can.
    hold = '{"metadata":{"finalizers":["example.com/hold"]}}'
    kube.kubectl("patch", "tj", JOB, "--type=merge", "-p", hold)
    kube.delete("namespace", kube.namespace, "--wait=false")
    try:
        kube.until("the pods are gone", lambda: kube.all("pods", f"{JOB_LABEL}={JOB}") == [])
        asked, looked = requests(operator), passes(operator)
        kube.until("it was looked at again and again", lambda: passes(operator) >= looked + 3)
        assert status(kube)["restarts"] == 0
        # Lists of everything, now and then.
        assert requests(operator) - asked < 50
        assert lone_pods.names(kube, JOB) == []
    finally:
        kube.kubectl("patch", "tj", JOB, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def requests(operator: OperatorProcess) -> float:
    return metric(operator, "ringtrain_operator_api_requests_total")


def passes(operator: OperatorProcess) -> float:
    return metric(operator, "ringtrain_operator_reconcile_total")


def metric(operator: OperatorProcess, name: str) -> float:
    """Over all labels."""
    _, text = operator.get(operator.metrics_port, "/metrics")
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == name)
