"""The operator is killed at every single request of a job's life, and the job's life is the same."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kinds import Kind, path
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.settings import Settings
from support import lone_pods
from support.healthy_cluster import HealthyCluster
from support.kube import Kube
from support.mortal_operator import Call, Death, MortalOperator
from support.pod_history import PodHistory

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800, func_only=True)]

PATIENCE = 60.0
QUIET = 5.0
"""Seconds after the job's end in which all has been said."""
WRITES = frozenset({"POST", "PUT", "DELETE", "PATCH"})
LIFE = {
    "phase": "Succeeded",
    "epoch": 1,
    "restarts": 1,
    "counted": 1,
    "failures": [("JOB-1-0", "UserError", 70, True)],
    "members": [(0, 0), (1, 1)],
    "pods": {"JOB-0-0": "Succeeded", "JOB-1-0": "Failed", "JOB-1-1": "Succeeded"},
    "services": ["JOB"],
    "claims": ["JOB-checkpoints"],
}


class Lives:
    """Jobs that are created, lose a replica, recover and finish, one after another."""

    def __init__(self, kube: Kube, run: Callable[..., Any], api: KubernetesApi, folder: Path) -> None:
        self._kube = kube
        self._run = run
        self._api = api
        self._folder = folder
        self._count = 0
        self.calls: list[Call] = []
        self.operator = MortalOperator(Settings(watch_namespaces=(kube.namespace,), resync_seconds=3600), folder)

    def live(self, death: Death | None) -> bool:
        """One job's life, in which the operator is killed once. Whether it was: `calls` are of the one that was not."""
        self._count += 1
        self.job = f"j{self._count}"
        self._alive = death is None
        self.operator.start(self.job, death)
        lone_pods.submit(self._kube, self.job, checkpoint={"volume": {"claimTemplate": {"storage": "1Mi"}}})
        # A watch that begins with nothing shows nothing, and so not whether it has begun.
        self._until(lambda: self._pods() != {})
        with PodHistory(self._kube, self.job, self._folder / f"pods-{self.job}") as history:
            self._until(lambda: self._pods().keys() >= {f"{self.job}-0-0", f"{self.job}-1-0"})
            for pod in (f"{self.job}-0-0", f"{self.job}-1-0"):
                lone_pods.runs(self._kube, pod)
            lone_pods.ends(self._kube, f"{self.job}-1-0", 70)
            self._until(lambda: f"{self.job}-1-1" in self._pods())
            for pod in (f"{self.job}-0-0", f"{self.job}-1-1"):
                lone_pods.ends(self._kube, pod, 0)
            self._until(lambda: self._outcome() == LIFE)
            ended = time.monotonic()
            self._until(lambda: self._alive or time.monotonic() - ended > QUIET)
            self._until(lambda: self._outcome() == LIFE)
        assert history.doubled() == []
        self.calls = self.operator.calls()
        self.operator.kill()
        return self._alive and death is not None

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if not self._alive and self.operator.has_died():
                self._alive = True
                self.operator.start(self.job)
            assert time.monotonic() < deadline, self._outcome()
            time.sleep(0.05)

    def _outcome(self) -> dict[str, Any]:
        """With `JOB` in place of the job's name."""
        raw = self._run(self._api.get(path(Kind.JOBS, self._kube.namespace, self.job))) or {}
        status = raw.get("status", {})
        return {
            "phase": status.get("phase"),
            "epoch": status.get("epoch"),
            "restarts": status.get("restarts"),
            "counted": status.get("countedRestarts"),
            "failures": [
                (self._named(failure["pod"]), failure["reason"], failure.get("exitCode"), failure["counted"])
                for failure in status.get("failures", [])
            ],
            "members": [(member["index"], member["epoch"]) for member in status.get("members", [])],
            "pods": {self._named(name): phase for name, phase in self._pods().items()},
            "services": [self._named(each["metadata"]["name"]) for each in self._children(Kind.SERVICES)],
            "claims": [self._named(each["metadata"]["name"]) for each in self._children(Kind.CLAIMS)],
        }

    def _pods(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in self._children(Kind.PODS)}

    def _children(self, kind: Kind) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._run(
            self._api.list(path(kind, self._kube.namespace), f"{LABEL_JOB}={self.job}")
        )
        return found

    def _named(self, name: str) -> str:
        return name.replace(self.job, "JOB")


@pytest.fixture
def lives(healthy: HealthyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lives]:
    monkeypatch.setenv("KUBECONFIG", str(healthy.kube.kubeconfig))
    with asyncio.Runner() as runner:
        connection = KubernetesApi.connect()
        api = runner.run(connection.__aenter__())
        found = Lives(healthy.kube, runner.run, api, tmp_path)
        try:
            yield found
        finally:
            found.operator.kill()
            runner.run(connection.__aexit__(None, None, None))


def test_killed_at_every_call(lives: Lives) -> None:
    lives.live(None)
    calls = lives.calls
    made = {call.path.rsplit("/", 1)[-1] for call in calls if call.verb in WRITES}
    assert made >= {"status", "pods", "services", "persistentvolumeclaims", "events"}
    for call in calls:
        print(call)  # noqa: T201 the last one is shown when the test fails
        # A request that only reads does nothing: whether it was answered cannot matter.
        for when in ("before", "after") if call.verb in WRITES else ("before",):
            was_killed = lives.live(Death(call, when))
            # What is asked for depends on what the watches have shown by then, how often a status has something new on
            # what passes see together. All else is always done.
            assert was_killed or call.verb == "GET" or call.path.endswith("/status")
