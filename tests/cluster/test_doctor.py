"""`ringtrain doctor` on clusters that are broken in one way each: real objects of a real API server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from support.api_server import ADMINISTRATOR, NOBODY
from support.healthy_cluster import CRD, DNS, STORAGE_CLASS, HealthyCluster, set_status
from support.kube import Object

pytestmark = pytest.mark.cluster

OPERATOR = {
    "app.kubernetes.io/name": "ringtrain",
    "app.kubernetes.io/instance": "ringtrain",
    "app.kubernetes.io/component": "operator",
}
Doctor = Callable[..., list[str]]


@pytest.fixture
def doctor(invoke: Callable[..., Result], healthy: HealthyCluster) -> Doctor:
    """What it calls broken: a line for each."""

    def ask(user: str = ADMINISTRATOR) -> list[str]:
        result = invoke(healthy.server.kubeconfig(user, healthy.kube.namespace), "doctor", "-o", "json")
        found = [f"{f['subject']}: {f['text']}" for f in json.loads(result.stdout) if f["level"] == "FAIL"]
        assert result.exit_code == (1 if found else 0), result.output
        return found

    return ask


def test_a_healthy_cluster(doctor: Doctor, healthy: HealthyCluster, invoke: Callable[..., Result]) -> None:
    assert doctor() == []
    table = invoke(healthy.server.kubeconfig(ADMINISTRATOR, healthy.kube.namespace), "doctor").stdout
    levels = [line.split()[0] for line in table.splitlines()[1:]]
    assert set(levels) == {"ok"}, table


def test_no_crd(doctor: Doctor, healthy: HealthyCluster) -> None:
    healthy.kube.delete("crd", CRD)
    assert doctor() == ["CRD: the cluster knows no TrainingJobs: their CRD is missing"]


def test_an_old_crd(doctor: Doctor, healthy: HealthyCluster) -> None:
    old = healthy.kube.get("crd", CRD)
    assert old is not None
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"]["parallelism"]
    del schema["spec"]["properties"]["faultTolerance"]["properties"]["inPlaceRestarts"]
    healthy.kube.kubectl("replace", "-f", "-", stdin=json.dumps(old))
    (found,) = doctor()
    assert "the CRD is older than this command" in found
    assert "spec.parallelism, spec.faultTolerance.inPlaceRestarts" in found


def test_a_user_without_rights(doctor: Doctor) -> None:
    (found,) = doctor(NOBODY)
    assert "you may not get, list, create, update, patch, delete trainingjobs.ringtrain.io" in found


def test_an_operator_without_rights(doctor: Doctor, healthy: HealthyCluster) -> None:
    healthy.kube.delete("clusterrolebinding", "ringtrain-system-ringtrain")
    (found,) = doctor()
    assert found.startswith("operator's rights: system:serviceaccount:ringtrain-system:ringtrain may not ")
    assert "get, list, watch, create, patch, delete pods" in found


def test_no_class_for_shared_volumes(doctor: Doctor, healthy: HealthyCluster) -> None:
    healthy.kube.delete("storageclass", STORAGE_CLASS)
    (found,) = doctor()
    assert "no storage class gives ReadWriteMany volumes" in found
    single = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": STORAGE_CLASS}}
    healthy.kube.apply({**single, "provisioner": "ebs.csi.aws.com"})
    (found,) = doctor()
    assert "no storage class gives ReadWriteMany volumes" in found
    assert "shared (ebs.csi.aws.com)" in found


def test_no_dns(doctor: Doctor, healthy: HealthyCluster) -> None:
    healthy.dns.kubectl("patch", "endpoints", DNS, "--type=merge", "-p", '{"subsets": null}')
    (found,) = doctor()
    assert "DNS: cluster DNS is down: kube-system/kube-dns has no ready address" in found


def test_the_operator_is_down(doctor: Doctor, healthy: HealthyCluster) -> None:
    set_status(healthy.system, "deployment", "ringtrain", {"replicas": 0, "readyReplicas": 0})
    assert doctor() == ["operator: ringtrain-system/ringtrain is down: no pod of it is ready"]
    healthy.system.kubectl("scale", "deployment/ringtrain", "--replicas=0")
    assert doctor() == ["operator: ringtrain-system/ringtrain is down: it is scaled to 0 replicas"]


def test_no_operator(doctor: Doctor, healthy: HealthyCluster) -> None:
    healthy.system.delete("deployment", "ringtrain")
    assert doctor() == ["operator: no operator is installed: nobody acts on TrainingJobs"]


def test_a_wrong_image_of_the_operator(doctor: Doctor, healthy: HealthyCluster) -> None:
    set_status(healthy.system, "deployment", "ringtrain", {"replicas": 1, "readyReplicas": 0})
    waits_for_image(healthy, healthy.system.namespace, "ringtrain-1", OPERATOR)
    (found,) = doctor()
    assert "operator: ringtrain-system/ringtrain is down: its image ringtrain-operator:0.2.0 cannot be pulled" in found
    assert 'ImagePullBackOff: Back-off pulling image "wrong"' in found


def test_a_wrong_image_of_a_job(doctor: Doctor, healthy: HealthyCluster) -> None:
    waits_for_image(healthy, healthy.kube.namespace, "gpt-0-0", {"ringtrain.io/job": "gpt"})
    (found,) = doctor()
    assert "images: image wrong of job gpt cannot be pulled: gpt-0-0: ImagePullBackOff" in found


def test_network_policies_that_block(doctor: Doctor, healthy: HealthyCluster) -> None:
    network_policy(healthy, "deny-all", {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
    found = doctor()
    assert [text.partition(": ")[2].partition(":")[0] for text in found] == [
        "replicas cannot reach each other",
        "replicas cannot reach each other",
        "replicas cannot ask DNS",
        "the operator cannot ask the agents",
    ]
    assert all("deny-all" in text for text in found)
    selector = {"matchExpressions": [{"key": "ringtrain.io/job", "operator": "Exists"}]}
    everybody: list[Any] = [{}]
    network_policy(healthy, "allow-jobs", {"podSelector": selector, "ingress": everybody, "egress": everybody})
    assert doctor() == []


def test_a_cluster_that_is_not_there(tmp_path: Path, invoke: Callable[..., Result], healthy: HealthyCluster) -> None:
    config = yaml.safe_load(healthy.kube.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "config").write_text(json.dumps(config))
    result = invoke(tmp_path / "config", "doctor")
    assert result.exit_code == 3
    assert "error: the cluster gives no answer" in result.stderr


def waits_for_image(healthy: HealthyCluster, namespace: str, name: str, labels: Object) -> None:
    """A pod as the kubelet leaves it that cannot pull its image."""
    kube = healthy.kube.within(namespace)
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [{"name": "trainer", "image": "wrong"}]},
        }
    )
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "wrong"'}
    container = {"name": "trainer", "image": "wrong", "imageID": "", "ready": False, "restartCount": 0}
    set_status(kube, "pod", name, {"containerStatuses": [{**container, "state": {"waiting": waiting}}]})


def network_policy(healthy: HealthyCluster, name: str, spec: Object) -> None:
    healthy.kube.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": healthy.kube.namespace},
            "spec": spec,
        }
    )
