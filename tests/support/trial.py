"""Jobs in a namespace of a real cluster, with the operator as a process that can be killed at any moment."""

import json
from collections.abc import Callable
from copy import deepcopy
from signal import Signals
from typing import Any, TypeVar

from ringtrain.contract.addresses import AGENT_PORT
from support.kube import JOB_LABEL, Kube, Object
from support.operator_process import OperatorProcess

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds after which something counts as never to happen."""

NANO: Object = {
    "imagePullPolicy": "IfNotPresent",
    "replicas": 2,
    "device": "cpu",
    "trainer": {
        "rounds": 150,
        "model": {"size": "nano", "contextLength": 32},
        "data": {"paths": ["{stdlib}/*.py"]},
        "batch": {"perRank": 4},
    },
    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    "checkpoint": {"every": 5, "volume": {"claimTemplate": {"storage": "1Gi", "whenDeleted": "Delete"}}},
}
"""A job that trains in half a minute at most; its image is the trial's."""

WHEN_TRAINED = """
import json, subprocess, time, urllib.request
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    rank = dict(enumerate(json.load(urllib.request.urlopen("{url}"))["ranks"])).get({rank}, {{"phase": "none"}})
    if rank["phase"] == "training" and (rank["progress"] or {{"round": 0}})["round"] >= {rounds}:
        {act}
        print("ready")
        break
    time.sleep(0.02)
"""

DELAYED_SIGNAL = """subprocess.Popen(
            ["sh", "-c", "sleep 0.3; kill -{signal} " + str(rank["pid"])],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )"""
"""Delayed, so that the command in the pod is over before the pod may end."""


class Trial:
    def __init__(self, kube: Kube, operator: OperatorProcess, image: str) -> None:
        self.kube = kube
        self.operator = operator
        self.image = image

    def nano(self, **fields: Any) -> Object:
        """The spec `NANO` with other fields; those of `trainer` are merged, None removes one."""
        spec = {"image": self.image} | deepcopy(NANO) | fields
        if fields.get("trainer") is not None:
            spec["trainer"] = deepcopy(NANO["trainer"]) | fields["trainer"]
        return {name: value for name, value in spec.items() if value is not None}

    def submit(self, name: str, spec: Object) -> None:
        """Raises CommandError when kubectl or the API server refuses the job."""
        job = {"apiVersion": "ringtrain.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}
        self.kube.kubectl("apply", "-f", "-", stdin=json.dumps(job))

    def status(self, job: str) -> Object:
        """Empty before the first pass, and when there is no such job."""
        found: Object = (self.kube.get("trainingjob", job) or {}).get("status", {})
        return found

    def message(self, job: str) -> str:
        return str(self.status(job).get("message", ""))

    def pods(self, job: str) -> list[Object]:
        return self.kube.all("pods", f"{JOB_LABEL}={job}")

    def live_pods(self, job: str) -> list[Object]:
        """Those whose processes may still run."""
        return [pod for pod in self.pods(job) if pod["status"].get("phase") in ("Pending", "Running")]

    def children(self, job: str) -> list[str]:
        """KIND/NAME of everything that carries the job's label."""
        found = self.kube.all("pods,services,persistentvolumeclaims", f"{JOB_LABEL}={job}")
        return sorted(f"{item['kind']}/{item['metadata']['name']}" for item in found)

    def events(self, job: str) -> list[Object]:
        return self.kube.all("events", field_selector=f"involvedObject.name={job}")

    def until_trained(self, pod: str, rounds: int) -> None:
        """Until the pod's rank has finished so many rounds; it looks from inside, for jobs are quicker than kubectl."""
        self._when_trained(pod, rounds, "pass")

    def signal_rank(self, pod: str, signal: Signals, rounds: int = 1, rank: int = 0) -> None:
        """As soon as this rank of the pod has finished so many rounds and is in the training phase."""
        self._when_trained(pod, rounds, DELAYED_SIGNAL.format(signal=signal.value), rank)

    def _when_trained(self, pod: str, rounds: int, act: str, rank: int = 0) -> None:
        url = f"http://127.0.0.1:{AGENT_PORT}/status"
        code = WHEN_TRAINED.format(url=url, rounds=rounds, act=act, rank=rank)
        self.until(
            f"rank {rank} of {pod} trained {rounds} rounds",
            lambda: "ready" in self.kube.exec(pod, "python", "-c", code),
        )

    def until(self, what: str, condition: Callable[[], T | None]) -> T:
        return self.kube.until(what, condition, timeout=PATIENCE, every=1.0)

    def until_phase(self, job: str, *phases: str) -> Object:
        def reached() -> Object | None:
            status = self.status(job)
            return status if status.get("phase") in phases else None

        return self.until(f"{job} is {' or '.join(phases)}", reached)

    def until_round(self, job: str, least: int) -> Object:
        """Until it trains and has finished at least so many rounds."""

        def reached() -> Object | None:
            status = self.status(job)
            return status if status.get("phase") == "Running" and status["round"] >= least else None

        return self.until(f"{job} trained {least} rounds", reached)

    def until_operator_ready(self) -> None:
        self.until("the operator is ready", self.operator.is_ready)
