"""A training job of some system in pods: what the recovery benchmark needs of it, by kubectl."""

import calendar
import json
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from recovery_results import DELETE_POD, LOSE_NODE
from recovery_system import System

Object = dict[str, Any]
_TESTBED = Path(__file__).parents[1] / "testbed" / "cluster"
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT")
_LOOK_SECONDS = 0.2
_START_SECONDS = 180.0


class Kubectl:
    """On one namespace of the cluster that KUBECONFIG names."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120.0) -> str:
        """Its standard output. Raises subprocess.CalledProcessError."""
        command = ["kubectl", f"--namespace={self.namespace}", *arguments]
        return subprocess.run(command, input=stdin, text=True, check=True, timeout=timeout, capture_output=True).stdout

    def apply(self, *manifests: Object) -> None:
        self("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def pods(self, selector: str) -> list[Object]:
        found: list[Object] = json.loads(self("get", "pods", f"--selector={selector}", "-o", "json"))["items"]
        return found

    def volume(self, claim: str) -> Path:
        """The folder of the test bed that lies behind the claim."""
        self("wait", f"pvc/{claim}", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
        name = self("get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}")
        return Path(self("get", "pv", name, "-o", "jsonpath={.spec.hostPath.path}"))

    def follow(self, pod: str) -> subprocess.Popen[bytes]:
        """What the pod has printed and prints, each line behind the time when the container runtime read it."""
        command = ["kubectl", f"--namespace={self.namespace}", "logs", "-f", "--timestamps", pod]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


class PodJob(System):
    """Its pods carry `selector`. Their logs are followed, whatever replaces them."""

    selector: str

    def __init__(self, directory: Path, kubectl: Kubectl, image: str) -> None:
        super().__init__(directory)
        self.kubectl, self.image = kubectl, image
        self._lost_node = ""
        self._ended = threading.Event()
        self._followed: dict[str, subprocess.Popen[bytes]] = {}
        """By UID."""
        self._watch = threading.Thread(target=self._follow_pods, daemon=True)

    def submit(self) -> None:
        """Applies it."""
        raise NotImplementedError

    def take(self, pod: str, at: float, text: str) -> None:
        """A line that `pod` printed at `at`, by time.time."""
        raise NotImplementedError

    def start(self) -> None:
        self.log.touch()
        self.submit()
        self._watch.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self.finished and time.monotonic() < deadline:
            time.sleep(0.1)

    def strike(self, fault: str) -> None:
        pod = self._victim()
        if fault == DELETE_POD:
            self.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
        elif fault == LOSE_NODE:
            self._lost_node = pod["spec"]["nodeName"]
            _testbed("kill-node", self._lost_node)

    def after(self, fault: str) -> None:
        if fault == LOSE_NODE:
            _testbed("start-node", self._lost_node)
            self.kubectl("wait", "--for=condition=Ready", f"node/{self._lost_node}", "--timeout=120s", timeout=130)

    def close(self) -> None:
        self._ended.set()
        for follower in self._followed.values():
            follower.kill()
            follower.wait()

    def _victim(self) -> Object:
        """Alone on its node, and not the first, where rendezvous and coordinator are: a job that had just that
        one machine lost. A pod of the node with the fewest when none is alone."""
        pods = sorted(self.kubectl.pods(self.selector), key=lambda pod: str(pod["metadata"]["name"]))
        running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        nodes = [pod["spec"]["nodeName"] for pod in running]

        def others(pod: Object) -> tuple[bool, int]:
            node = pod["spec"]["nodeName"]
            return node == nodes[0], nodes.count(node)

        return min(running[1:], key=others)

    def _follow_pods(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                pods = self.kubectl.pods(self.selector)
            except subprocess.SubprocessError:
                continue
            for pod in pods:
                statuses = pod["status"].get("containerStatuses", [])
                uid = pod["metadata"]["uid"]
                if uid not in self._followed and any("running" in status["state"] for status in statuses):
                    follower = self._followed[uid] = self.kubectl.follow(pod["metadata"]["name"])
                    threading.Thread(target=self._read, args=(pod["metadata"]["name"], follower), daemon=True).start()

    def _read(self, pod: str, follower: subprocess.Popen[bytes]) -> None:
        assert follower.stdout is not None
        with follower.stdout, self.log.open("a") as log:
            for line in follower.stdout:
                stamp, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
                if not _STAMP.match(stamp):
                    continue  # kubectl's own words
                log.write(f"{pod}: {text}\n")
                log.flush()
                self.take(pod, seconds(stamp), text)


def seconds(stamp: str) -> float:
    """By time.time, of RFC 3339 with nanoseconds and Z."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return float(calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))) + float(f"0.{fraction or 0}")


def _testbed(verb: str, node: str) -> None:
    subprocess.run([_TESTBED, verb, node.removeprefix("node-")], check=True, timeout=180, stdout=subprocess.DEVNULL)
