"""The API server goes away and comes back, as when a control plane is upgraded."""

from pathlib import Path

import pytest

from support import lone_pods
from support.healthy_cluster import HealthyCluster
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

JOB = "job"


def test_the_operator_outlives_the_api_server(
    healthy: HealthyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = healthy.kube
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    operator = OperatorProcess(kube.namespace, tmp_path / "log", LEASE=f"{kube.namespace}/operator", LEASE_SECONDS="60")
    operator.start()
    try:
        lone_pods.submit(kube, JOB)
        kube.until("the pods are there", lambda: lone_pods.names(kube, JOB) == ["job-0-0", "job-1-0"])
        for pod in ("job-0-0", "job-1-0"):
            lone_pods.runs(kube, pod)
        healthy.server.stop()
        healthy.server.start()
        lone_pods.ends(kube, "job-1-0", 70)
        kube.until("the pod is replaced", lambda: lone_pods.names(kube, JOB) == ["job-0-0", "job-1-1"])
        # It is the same process still.
        assert operator.stop() == 0
    finally:
        operator.kill()
        print(operator.log.read_text())  # noqa: T201 pytest shows it when the test fails
