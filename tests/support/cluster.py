"""The cluster under test: the test bed of this repository, or the cluster that RINGTRAIN_TEST_KUBECONFIG names.

RINGTRAIN_TEST_KUBECONFIG        use that cluster; nothing of it is started, stopped or killed
RINGTRAIN_TEST_OPERATOR_IMAGE    images that its nodes can pull or have; needed with that cluster
RINGTRAIN_TEST_TRAINER_IMAGE
RINGTRAIN_TESTBED_KEEP=1         leave the test bed and the operator as they are at the end
"""

import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from support.kube import SYSTEM, Kube
from support.tools import CHART, TESTBED, CommandError, command, tool

BUILD_SECONDS = 3600.0
"""The first start builds the API server from source, the first image build installs torch."""


@dataclass(frozen=True)
class Images:
    operator: str
    trainer: str
    version: str
    """Changes when their content does."""


@dataclass(frozen=True)
class Cluster:
    kubeconfig: Path
    is_testbed: bool
    """Nodes can be killed and started."""
    was_up: bool
    """It ran before the tests, and shall run on after them."""

    def kube(self, namespace: str = "default") -> Kube:
        return Kube(self.kubeconfig, namespace)

    def testbed(self, *args: str, timeout: float = 120.0) -> str:
        """Runs a command of testbed/cluster."""
        assert self.is_testbed, "this test needs the test bed: unset RINGTRAIN_TEST_KUBECONFIG"
        return command(TESTBED / "cluster", *args, timeout=timeout)

    def kill_node(self, name: str) -> None:
        """Every process of the node dies at once, as in a power cut."""
        self.testbed("kill-node", name.removeprefix("node-"))

    def start_node(self, name: str, timeout: float = 120.0) -> None:
        """Boots the node, when it is down, and waits until it is Ready."""
        self.testbed("start-node", name.removeprefix("node-"))
        kube = self.kube()
        kube.until(f"{name} Ready", lambda: name in ready_nodes(kube), timeout)

    def unplug(self, name: str) -> None:
        """Takes the node's link down: what runs on it runs on, and reaches nothing else."""
        self.testbed("unplug", name.removeprefix("node-"))

    def plug(self, name: str) -> None:
        """Puts the link of a node that runs up again."""
        self.testbed("plug", name.removeprefix("node-"))

    def advertise(self, node: str, resource: str, count: int) -> None:
        """Makes the node offer `count` of an extended resource, as a device plug-in would; 0 takes it back."""
        path = "/status/capacity/" + resource.replace("/", "~1")
        patch = [{"op": "add", "path": path, "value": str(count)}]
        self.kube().kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(patch))


def ready_nodes(kube: Kube) -> list[str]:
    def is_ready(node: dict[str, object]) -> bool:
        conditions = node["status"]["conditions"]  # type: ignore[index]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    return [node["metadata"]["name"] for node in kube.all("nodes") if is_ready(node)]


def start() -> Cluster:
    """Starts the test bed, or adopts what is there."""
    if kubeconfig := os.environ.get("RINGTRAIN_TEST_KUBECONFIG"):
        return Cluster(Path(kubeconfig).resolve(), is_testbed=False, was_up=True)
    cluster = TESTBED / "cluster"
    kubeconfig = command(cluster, "kubeconfig").strip()
    try:
        command(cluster, "status")
        was_up = True
    except CommandError:
        was_up = False
        command(cluster, "down", timeout=300)  # what an interrupted run may have left
    command(cluster, "up", timeout=BUILD_SECONDS)
    return Cluster(Path(kubeconfig), is_testbed=True, was_up=was_up)


def stop(cluster: Cluster) -> None:
    if cluster.is_testbed and not cluster.was_up and not keep():
        cluster.testbed("down", timeout=300)


def keep() -> bool:
    return os.environ.get("RINGTRAIN_TESTBED_KEEP") == "1"


def load_images(cluster: Cluster) -> Images:
    """Builds the images from this checkout and loads them into the test bed's nodes."""
    if not cluster.is_testbed:
        try:
            operator, trainer = (os.environ[f"RINGTRAIN_TEST_{name}_IMAGE"] for name in ("OPERATOR", "TRAINER"))
        except KeyError as missing:
            raise AssertionError(f"with RINGTRAIN_TEST_KUBECONFIG, {missing} must name an image") from None
        return Images(operator, trainer, version=str(time.time_ns()))
    layout = Path(command(TESTBED / "build-images", timeout=BUILD_SECONDS).strip())
    cluster.testbed("load-image", str(layout), timeout=600)
    version = hashlib.sha256((layout / "index.json").read_bytes()).hexdigest()[:16]
    return Images("localhost/ringtrain-operator:dev", "localhost/ringtrain-trainer:dev", version)


def install_operator(cluster: Cluster, images: Images, *args: str, chart: Path = CHART) -> None:
    """`helm upgrade --install` of the chart; waits until the operator is ready."""
    repository, _, tag = images.operator.rpartition(":")
    values = (f"image.repository={repository}", f"image.tag={tag}", f"podAnnotations.images={images.version}")
    command(
        *(tool("helm"), "upgrade", "--install", "ringtrain", chart, f"--kubeconfig={cluster.kubeconfig}"),
        *(f"--namespace={SYSTEM}", "--create-namespace", "--take-ownership", "--wait", "--timeout=180s"),
        *(arg for value in values for arg in ("--set-string", value)),
        *args,
        timeout=240,
    )


def uninstall_operator(cluster: Cluster) -> None:
    kube = cluster.kube(SYSTEM)
    helm = (tool("helm"), "uninstall", "ringtrain", f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SYSTEM}")
    command(*helm, "--wait", "--timeout=120s", timeout=180)
    kube.delete("crd", "trainingjobs.ringtrain.io", "--ignore-not-found")
    kube.delete("namespace", SYSTEM, "--ignore-not-found")


def is_installed(cluster: Cluster) -> bool:
    return cluster.kube(SYSTEM).get("deployment", "ringtrain") is not None
