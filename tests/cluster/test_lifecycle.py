"""Jobs that are suspended, scaled, judged by rules, out of time or deleted, on a real API server."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support import lone_pods
from support.cluster import Cluster
from support.kube import Kube, Object
from support.operator_process import OperatorProcess

pytestmark = pytest.mark.cluster

JOB = "job"
CLAIM = f"{JOB}-checkpoints"
CHECKPOINT: Object = {"volume": {"claimTemplate": {"storage": "1Mi"}}}

T = TypeVar("T")


@dataclass
class Stage:
    kube: Kube
    operator: OperatorProcess

    def submit(self, **fields: Any) -> None:
        lone_pods.submit(self.kube, JOB, **fields)

    def status(self) -> Object:
        found: Object = (self.kube.get("tj", JOB) or {}).get("status", {})
        return found

    def until(self, what: str, condition: Callable[[], T | None]) -> T:
        return self.kube.until(what, condition, timeout=60)

    def until_phase(self, phase: str) -> Object:
        return self.until(phase, lambda: found if (found := self.status()).get("phase") == phase else None)

    def until_pods(self, *names: str) -> None:
        self.until(f"the pods are {names}", lambda: lone_pods.names(self.kube, JOB) == sorted(names))

    def condition(self, kind: str) -> tuple[str, str]:
        found = {each["type"]: (each["status"], each["reason"]) for each in self.status().get("conditions", [])}
        return found.get(kind, ("", ""))

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.kube.events()}


@pytest.fixture
def stage(kube: Kube, no_operator: Kube, tmp_path: Path) -> Iterator[Stage]:
    with OperatorProcess(kube.namespace, tmp_path / "operator.log").running(kube) as operator:
        yield Stage(kube, operator)


def test_a_job_is_suspended_changed_and_resumed(stage: Stage) -> None:
    stage.submit()
    stage.until_pods("job-0-0", "job-1-0")
    lone_pods.runs(stage.kube, "job-0-0")
    stage.submit(suspend=True)
    status = stage.until_phase("Suspended")
    assert lone_pods.names(stage.kube, JOB) == []
    assert stage.condition("Suspended") == ("True", "Suspended")
    assert (status["epoch"], status.get("restarts", 0), status.get("failures", [])) == (1, 0, [])
    stage.submit(suspend=False, procsPerReplica=2)
    stage.until_pods("job-0-1", "job-1-1")
    assert stage.condition("Suspended") == ("False", "Resumed")
    assert stage.reasons() >= {"Suspended", "Resumed", "Started"}


def test_a_job_is_suspended_by_an_operator_that_was_away(stage: Stage) -> None:
    stage.submit()
    stage.until_pods("job-0-0", "job-1-0")
    stage.operator.kill()
    stage.submit(suspend=True)
    stage.operator.start()
    stage.until_phase("Suspended")
    assert lone_pods.names(stage.kube, JOB) == []


def test_a_job_is_scaled(stage: Stage) -> None:
    stage.submit(checkpoint=CHECKPOINT)
    stage.until_pods("job-0-0", "job-1-0")
    stage.kube.kubectl("scale", "tj", JOB, "--replicas=3")
    stage.until_pods("job-0-1", "job-1-1", "job-2-1")
    assert (stage.status()["replicas"], stage.status().get("restarts", 0)) == (3, 0)
    assert "Scaled" in stage.reasons()


def test_rules_decide_about_failures(stage: Stage) -> None:
    rules = [
        {"action": "RestartUncounted", "exitCodes": [70]},
        {"action": "Ignore", "reasons": ["PodDeleted"]},
        {"action": "FailJob", "exitCodes": [3]},
    ]
    stage.submit(faultTolerance={"maxRestarts": 0, "rules": rules})
    stage.until_pods("job-0-0", "job-1-0")
    lone_pods.ends(stage.kube, "job-0-0", 70)
    stage.until_pods("job-0-1", "job-1-0")
    stage.kube.delete("pod", "job-1-0")
    stage.until_pods("job-0-1", "job-1-2")
    status = stage.status()
    assert (status["restarts"], status.get("countedRestarts", 0)) == (1, 0)
    lone_pods.ends(stage.kube, "job-0-1", 3)
    status = stage.until_phase("Failed")
    assert "a rule of faultTolerance.rules" in status["message"]
    assert [failure["action"] for failure in status["failures"]] == ["RestartUncounted", "Ignore", "FailJob"]
    stage.until_pods()


def test_a_job_that_nobody_schedules_is_given_up(stage: Stage) -> None:
    stage.submit(pendingDeadlineSeconds=5)
    status = stage.until_phase("Failed")
    assert "pendingDeadlineSeconds" in status["message"]
    assert stage.condition("Failed") == ("True", "PendingDeadlineExceeded")
    stage.until_pods()


def test_a_job_that_takes_too_long_is_given_up(stage: Stage) -> None:
    stage.submit(activeDeadlineSeconds=8)
    stage.until_pods("job-0-0", "job-1-0")
    for pod in ("job-0-0", "job-1-0"):
        lone_pods.runs(stage.kube, pod)
    stage.until_phase("Failed")
    assert stage.condition("Failed") == ("True", "DeadlineExceeded")
    stage.until_pods()


def test_a_finished_job_goes_and_its_claim_serves_the_next_of_its_name(stage: Stage) -> None:
    stage.submit(ttlSecondsAfterFinished=3, checkpoint=CHECKPOINT)
    stage.until_pods("job-0-0", "job-1-0")
    claim = uid(stage, CLAIM)
    lone_pods.ends(stage.kube, "job-0-0", 0)
    stage.until("the job is deleted", lambda: stage.kube.get("tj", JOB) is None)
    stage.until("its pods go with it", lambda: not stage.kube.all("pods"))
    stage.submit(checkpoint=CHECKPOINT)
    stage.until_pods("job-0-0", "job-1-0")
    assert uid(stage, CLAIM) == claim
    assert "CreateFailed" not in stage.reasons()


def test_a_claim_goes_with_its_job_where_that_is_wanted(stage: Stage) -> None:
    stage.submit(checkpoint={"volume": {"claimTemplate": {"storage": "1Mi", "whenDeleted": "Delete"}}})
    stage.until_pods("job-0-0", "job-1-0")
    stage.kube.delete("tj", JOB)
    stage.until("the claim is gone", lambda: stage.kube.get("pvc", CLAIM) is None)


def test_no_pod_is_kept_where_none_is_to_be(stage: Stage) -> None:
    stage.submit(cleanPodPolicy="All")
    stage.until_pods("job-0-0", "job-1-0")
    lone_pods.ends(stage.kube, "job-1-0", 78)
    stage.until_phase("Failed")
    stage.until("no pod is left", lambda: not stage.kube.all("pods"))


def test_side_cars_end_and_leave_the_logs(stage: Stage, cluster: Cluster) -> None:
    if not cluster.is_testbed:
        pytest.skip("the image that has nothing but a sleeper is the test bed's")
    sleeper = {"image": "localhost/pause:1", "imagePullPolicy": "Never"}
    template = {"spec": {"containers": [{"name": "side-car"} | sleeper]}}
    stage.submit(**sleeper, replicas=1, template=template, faultTolerance={"maxRestarts": 1})
    # The image has no Python, so the training container cannot start; the other one would sleep for ever.
    status = stage.until_phase("Failed")
    assert [failure["reason"] for failure in status["failures"]] == ["StartError", "StartError"]
    stage.until("no pod runs", lambda: lone_pods.names(stage.kube, JOB) == [])
    kept = {pod["metadata"]["name"]: pod["status"].get("reason") for pod in stage.kube.all("pods")}
    assert kept == {"job-0-0": "DeadlineExceeded", "job-0-1": "DeadlineExceeded"}


def test_a_quota_that_gives_way_is_used_soon(stage: Stage) -> None:
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    stage.kube.apply(quota | {"spec": {"hard": {"pods": "1"}}})
    stage.until(
        "the quota works", lambda: "pods" in stage.kube.kubectl("get", "quota", "few", "-o", "jsonpath={.status.hard}")
    )
    stage.submit()
    stage.until("it is told", lambda: "exceeded quota" in stage.status().get("message", ""))
    time.sleep(12)  # Refusals that were answered by ever longer pauses would have reached 16 s by then.
    stage.kube.delete("quota", "few")
    stage.kube.until("both pods are there", lambda: len(lone_pods.names(stage.kube, JOB)) == 2, timeout=12)


def test_another_controllers_job_is_left_alone(stage: Stage) -> None:
    stage.submit(managedBy="kueue.x-k8s.io/multikueue")
    lone_pods.submit(stage.kube, "ours")
    stage.until("the other job's pods are there", lambda: len(lone_pods.names(stage.kube, "ours")) == 2)
    assert stage.status() == {}
    assert lone_pods.names(stage.kube, JOB) == []


def uid(stage: Stage, claim: str) -> str:
    return str((stage.kube.get("pvc", claim) or {})["metadata"]["uid"])
