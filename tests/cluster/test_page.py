"""The operator's page: of the jobs of a real API server, and for nobody who may not forward ports."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from support.api_server import ADMINISTRATOR
from support.healthy_cluster import HealthyCluster
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster


def test_the_operator_shows_its_jobs(healthy: HealthyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = healthy.kube.namespace
    monkeypatch.setenv("KUBECONFIG", str(healthy.server.kubeconfig(ADMINISTRATOR, namespace)))
    operator = OperatorProcess(namespace, tmp_path / "log")

    def jobs() -> list[dict[str, Any]]:
        status, body = operator.get(operator.page_port, "/jobs.json")
        return list(json.loads(body)["jobs"]) if status == 200 else []

    operator.start()
    try:
        spec = {"image": "x", "replicas": 2, "device": "cpu", "command": ["true"]}
        api = {"apiVersion": "ringtrain.io/v1alpha1", "kind": "TrainingJob"}
        healthy.kube.apply({**api, "metadata": {"name": "gpt", "namespace": namespace}, "spec": spec})
        (job,) = healthy.kube.until("the job is shown", jobs)
        assert (job["namespace"], job["name"], job["status"]["replicas"]) == (namespace, "gpt", 2)
        healthy.kube.delete("tj", "gpt")
        healthy.kube.until("the job is not shown any more", lambda: not jobs())
        assert "<title>Ringtrain</title>" in operator.get(operator.page_port, "/")[1]
        with socket.socket() as outside, pytest.raises(ConnectionRefusedError):
            outside.connect((_address(), operator.page_port))
    finally:
        operator.kill()


def _address() -> str:
    """Of this machine, and not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 1))  # sends nothing
        return str(probe.getsockname()[0])
