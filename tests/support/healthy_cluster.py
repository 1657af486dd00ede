"""All that the doctor looks at, as a healthy cluster has it, on an API server of one's own: nothing of it runs."""

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.api_server import ApiServer
from support.kube import SYSTEM, Kube, Object
from support.tools import CHART, command, tool

CRD = "trainingjobs.ringtrain.io"
NODE, STORAGE_CLASS, DNS = "node-1", "shared", "kube-dns"


@dataclass(frozen=True)
class HealthyCluster:
    server: ApiServer
    kube: Kube
    """The namespace where jobs are to run."""

    @property
    def system(self) -> Kube:
        """The operator's namespace."""
        return self.kube.within(SYSTEM)

    @property
    def dns(self) -> Kube:
        return self.kube.within("kube-system")


@contextmanager
def healthy_cluster(server: ApiServer) -> Iterator[HealthyCluster]:
    """The chart, installed by Helm, and what controllers, kubelets and administrators add. Gone after the block."""
    system = server.kube(SYSTEM)
    helm = (f"--kubeconfig={system.kubeconfig}", f"--namespace={SYSTEM}")
    found = HealthyCluster(server, server.kube(f"test-{uuid.uuid4().hex[:8]}"))
    try:
        command(tool("helm"), "upgrade", "--install", "ringtrain", CHART, *helm, "--create-namespace")
        found.kube.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        set_status(system, "deployment", "ringtrain", {"replicas": 1, "readyReplicas": 1})
        found.kube.kubectl("create", "namespace", found.kube.namespace)
        found.dns.apply(*_objects())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        set_status(found.kube, "node", NODE, {"conditions": [ready], "allocatable": {"nvidia.com/gpu": "8"}})
        yield found
    finally:
        command(tool("helm"), "uninstall", "ringtrain", *helm, "--ignore-not-found")
        for kind, name in (("crd", CRD), ("node", NODE), ("storageclass", STORAGE_CLASS)):
            found.kube.delete(kind, name, "--ignore-not-found")
        found.dns.delete("service,endpoints", DNS, "--ignore-not-found")


def set_status(kube: Kube, kind: str, name: str, status: Object) -> None:
    """As a controller would."""
    kube.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def _objects() -> list[Object]:
    is_default = {"storageclass.kubernetes.io/is-default-class": "true"}
    dns = {"name": DNS, "namespace": "kube-system", "labels": {"k8s-app": DNS}}
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}]
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"podCIDR": "10.244.1.0/24"}},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS, "annotations": is_default},
            "provisioner": "nfs.csi.k8s.io",
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": dns, "spec": {"ports": ports}},
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": dns,
            "subsets": [{"addresses": [{"ip": "10.244.1.2"}], "ports": ports}],
        },
    ]
