"""The chart as real Helm installs it, and a job under the operator that it installed."""

import pytest

from support.cluster import Images
from support.kube import Kube, Object
from support.prometheus import Prometheus
from support.trial import NANO

pytestmark = pytest.mark.cluster

ROUNDS = 800
"""Many times what is trained between two looks of Prometheus, a second apart."""


def test_operator_is_ready_and_jobs_can_be_listed(operator: Kube, kube: Kube) -> None:
    (pod,) = operator.all("pods", selector="app.kubernetes.io/component=operator")
    (status,) = pod["status"]["containerStatuses"]

    assert status["ready"]
    assert status["restartCount"] == 0
    assert kube.all("tj") == []


def test_operator_may_do_nothing_that_it_does_not_do(operator: Kube, kube: Kube) -> None:
    account = f"--as=system:serviceaccount:{operator.namespace}:ringtrain"
    for allowed in ("create pods", "delete pods", "update trainingjobs --subresource=status", "watch nodes"):
        assert kube.kubectl("auth", "can-i", *allowed.split(), account).strip() == "yes"
    granted = kube.kubectl("auth", "can-i", "--list", account)

    assert "secrets" not in granted
    assert "pods/exec" not in granted


def test_job_trains_and_prometheus_sees_operator_and_trainers(
    operator: Kube, kube: Kube, images: Images, prometheus: Prometheus
) -> None:
    spec = NANO | {"image": images.trainer, "trainer": NANO["trainer"] | {"rounds": ROUNDS}}
    job: Object = {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job"},
        "spec": spec,
    }
    kube.apply(job)
    mine = f'namespace="{kube.namespace}"'

    rounds = prometheus.until(f"ringtrain_round{{{mine}}} > 0", timeout=180)
    assert {dict(labels)["pod"] for labels in rounds} <= {"job-0-0", "job-1-0"}
    prometheus.until('ringtrain_operator_reconcile_seconds_count{namespace="ringtrain-system"} > 0')

    def phase() -> str:
        return str((kube.get("tj", "job") or {}).get("status", {}).get("phase", ""))

    kube.until("the job to end", lambda: phase() in ("Succeeded", "Failed"), timeout=300)
    status = (kube.get("tj", "job") or {})["status"]
    assert (status["phase"], status["round"], status["restarts"]) == ("Succeeded", ROUNDS, 0)
