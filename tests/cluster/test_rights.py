"""The operator with the chart's own rights and no others, in both kinds of install."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support import lone_pods
from support.kube import Kube
from support.operator_process import OperatorProcess
from support.tools import CHART, command, tool

pytestmark = pytest.mark.cluster

JOB = "job"
RIGHTS = frozenset({"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})


@contextmanager
def granted(kube: Kube, *values: str) -> Iterator[None]:
    """What the chart grants when it is installed into the namespace, until the block ends."""
    sets = [arg for value in (*values, "rbac.aggregate=false") for arg in ("--set", value)]
    text = command(tool("helm"), "template", "ringtrain", CHART, "-n", kube.namespace, *sets)
    rights = [found for found in yaml.safe_load_all(text) if found and found["kind"] in RIGHTS]
    kube.apply(*rights)
    try:
        yield
    finally:
        for found in rights:
            kube.delete(found["kind"], found["metadata"]["name"])


def kubeconfig(kube: Kube, account: str, file: Path) -> Path:
    """Of the service account."""
    admin = yaml.safe_load(kube.kubeconfig.read_text())
    token = kube.kubectl("create", "token", account).strip()
    admin["users"] = [{"name": entry["name"], "user": {"token": token}} for entry in admin["users"]]
    file.write_text(json.dumps(admin))
    return file


@pytest.mark.parametrize("clusterwide", [True, False])
def test_the_rights_that_the_chart_grants_suffice(
    kube: Kube,
    no_operator: Kube,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clusterwide: bool,
) -> None:
    values = () if clusterwide else (f"watchNamespaces={{{kube.namespace}}}", "watchNodes=false")
    with granted(kube, *values):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(kube, "ringtrain", tmp_path / "kubeconfig")))
        # Both are kept to the test's own namespace: others have operators of their own.
        operator = OperatorProcess(
            kube.namespace,
            tmp_path / "log",
            LEASE=f"{kube.namespace}/ringtrain",
            WATCH_NODES=str(clusterwide).lower(),
            AGENTS_FROM="[]",
        )
        operator.start()
        try:
            lone_pods.submit(kube, JOB, checkpoint={"volume": {"claimTemplate": {"storage": "1Mi"}}})
            kube.until("the pods are there", lambda: lone_pods.names(kube, JOB) == ["job-0-0", "job-1-0"])
            kube.until("the operator is ready", operator.is_ready)
            assert kube.get("networkpolicy", JOB) is not None
            lone_pods.ends(kube, "job-0-0", 70)
            kube.until("the pod is replaced", lambda: lone_pods.names(kube, JOB) == ["job-0-1", "job-1-0"])
            kube.kubectl("delete", "pod", "job-1-0")
            kube.until("the pod is replaced", lambda: lone_pods.names(kube, JOB) == ["job-0-1", "job-1-2"])
            for pod in ("job-0-1", "job-1-2"):
                lone_pods.ends(kube, pod, 0)
            kube.until("the job succeeds", lambda: phase(kube) == "Succeeded")
            assert 'code="403"' not in operator.get(operator.metrics_port, "/metrics")[1]
        finally:
            operator.kill()
        log = operator.log.read_text()
        assert "Forbidden" not in log, log
        assert "403" not in log, log


def phase(kube: Kube) -> str:
    return str((kube.get("tj", JOB) or {}).get("status", {}).get("phase", ""))
