"""Objects as a real API server (1.20) gave them; samples.json holds one pod of each kind of trouble."""

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.cluster import convert
from ringtrain_operator.plan.observed import JobKey, Pod, PodPhase

SAMPLES = json.loads((Path(__file__).parent / "samples.json").read_text())
UID = "job-uid"


def sample(name: str) -> dict[str, Any]:
    return copy.deepcopy(SAMPLES["pods"][name])


def converted(raw: dict[str, Any]) -> Pod:
    pod = convert.pod(raw, UID)
    assert pod is not None
    return pod


def test_a_running_pod_is_ready_and_has_an_address() -> None:
    pod = converted(sample("running"))
    assert (pod.name, pod.index, pod.epoch) == ("job-3-2", 3, 2)
    assert pod.phase is PodPhase.RUNNING
    assert pod.ready
    assert pod.node == "node-1"
    assert not pod.deleting
    assert not pod.foreign
    assert pod.exit_code is None
    assert pod.created == datetime(2026, 11, 29, 16, 48, 6, tzinfo=UTC)
    assert convert.pod_address(sample("running")) == "10.244.1.7"


def test_a_pod_says_which_spec_it_was_made_from() -> None:
    raw = sample("running")
    assert converted(raw).spec_generation is None
    raw["metadata"]["annotations"] = {"ringtrain.io/spec-generation": "3"}
    assert converted(raw).spec_generation == 3
    raw["metadata"]["annotations"] = {"ringtrain.io/spec-generation": "somebody's"}
    assert converted(raw).spec_generation is None


@pytest.mark.parametrize(
    ("name", "phase", "exit_code", "reason", "message"),
    [
        ("succeeded", PodPhase.SUCCEEDED, 0, "Completed", ""),
        ("failed", PodPhase.FAILED, 78, "Error", '"reason":"BadConfiguration"'),
        ("sigkill", PodPhase.FAILED, 137, "Error", ""),
        ("oom", PodPhase.FAILED, 137, "OOMKilled", ""),
        ("nocommand", PodPhase.FAILED, 128, "StartError", "/no/such/binary"),
        ("evicted", PodPhase.FAILED, None, "Evicted", "exceeds the limit"),
        ("deadline", PodPhase.FAILED, None, "DeadlineExceeded", "longer than the specified deadline"),
    ],
)
def test_how_a_pod_ended(name: str, phase: PodPhase, exit_code: int | None, reason: str, message: str) -> None:
    pod = converted(sample(name))
    assert (pod.phase, pod.exit_code, pod.reason) == (phase, exit_code, reason)
    assert (pod.ended is not None) == (exit_code is not None)
    assert message in pod.message
    assert not pod.ready
    assert pod.waiting_reason == ""
    assert convert.pod_address(sample(name)) is None


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("unschedulable", "Unschedulable", "Insufficient example.com/gpu"),
        ("novolume", "Unschedulable", 'persistentvolumeclaim "nope" not found'),
        ("pull", "ImagePullBackOff", "localhost/no-such:1"),
        ("badimage", "InvalidImageName", "must be lowercase"),
        ("badconfig", "CreateContainerConfigError", 'configmap "none" not found'),
    ],
)
def test_why_a_pod_waits(name: str, reason: str, message: str) -> None:
    pod = converted(sample(name))
    assert pod.phase is PodPhase.PENDING
    assert pod.waiting_reason == reason
    assert message in pod.waiting_message
    assert pod.reason == ""


def test_a_pod_that_is_being_deleted_is_neither_ready_nor_asked() -> None:
    raw = sample("deleting")
    pod = converted(raw)
    assert pod.deleting
    assert pod.phase is PodPhase.RUNNING
    assert not pod.ready
    assert convert.pod_address(raw) is None


def test_a_pod_on_a_dead_node_still_reads_running() -> None:
    pod = converted(sample("nodelost"))
    assert pod.phase is PodPhase.RUNNING
    assert pod.deleting
    assert not pod.ready
    assert pod.exit_code is None


def test_a_failed_init_container_is_how_the_pod_ended() -> None:
    raw = sample("failed")
    main = raw["status"]["containerStatuses"][0]
    raw["status"]["initContainerStatuses"] = [main | {"name": "fetch"}]
    raw["status"]["containerStatuses"] = [main | {"state": {"waiting": {"reason": "PodInitializing"}}}]
    assert converted(raw).exit_code == 78


def test_a_side_car_that_ended_is_not_the_trainer() -> None:
    raw = sample("running")
    raw["status"]["containerStatuses"].append(
        {"name": "side-car", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
    )
    pod = converted(raw)
    assert pod.exit_code is None
    assert pod.reason == ""


def test_an_image_that_an_init_container_waits_for_is_told() -> None:
    raw = sample("pull")
    waiting = raw["status"]["containerStatuses"][0]
    raw["status"]["initContainerStatuses"] = [waiting | {"name": "fetch"}]
    raw["status"]["containerStatuses"] = [waiting | {"state": {"waiting": {"reason": "PodInitializing"}}}]
    assert converted(raw).waiting_reason == "ImagePullBackOff"


def test_disruptions_of_newer_releases_are_the_reason() -> None:
    raw = sample("sigkill")
    raw["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}
    )
    pod = converted(raw)
    assert (pod.reason, pod.message) == ("PreemptionByScheduler", "preempted")


def test_a_pod_of_another_owner_is_foreign() -> None:
    pod = convert.pod(sample("running"), "uid of a later job of the same name")
    assert pod is not None
    assert pod.foreign


def test_a_pod_that_holds_a_place_is_told_by_its_label() -> None:
    raw = sample("running")
    assert not converted(raw).holding
    raw["metadata"].setdefault("labels", {})["ringtrain.io/holding"] = "true"
    assert converted(raw).holding


def test_a_pod_that_is_not_named_as_a_replica_is_none() -> None:
    raw = sample("running")
    for name in ("job-debug", "debug", "job-1-x"):
        raw["metadata"]["name"] = name
        assert convert.pod(raw, UID) is None


def test_a_pod_without_a_status_is_pending() -> None:
    raw = sample("running")
    del raw["status"], raw["spec"]["nodeName"]
    pod = converted(raw)
    assert pod.phase is PodPhase.PENDING
    assert pod.node is None


def test_nodes() -> None:
    alive, dead = (convert.node(SAMPLES["nodes"][name]) for name in ("node-1", "node-3"))
    assert alive.ready
    assert not dead.ready  # its condition is Unknown
    assert dead.since == datetime(2026, 11, 29, 16, 57, 30, tzinfo=UTC)


def test_a_node_that_never_reported_is_not_ready_since_it_was_registered() -> None:
    raw = copy.deepcopy(SAMPLES["nodes"]["node-1"])
    raw["status"] = {}
    node = convert.node(raw)
    assert not node.ready
    assert node.since == datetime.fromisoformat(raw["metadata"]["creationTimestamp"])


def test_a_job() -> None:
    raw = {
        "metadata": {
            "namespace": "n",
            "name": "j",
            "uid": UID,
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-11-29T16:00:00Z",
        },
        "spec": {"image": "i"},
        "status": {"phase": "Running", "epoch": 4, "startTime": "2026-11-29T16:00:01.250000Z"},
    }
    job = convert.job(raw)
    assert job.key == JobKey("n", "j")
    assert (job.uid, job.resource_version, job.generation, job.deleting) == (UID, "7", 2, False)
    assert job.status.phase is JobPhase.RUNNING
    assert job.status.epoch == 4
    assert job.spec == {"image": "i"}
    assert convert.job(raw | {"status": None}).status.epoch == 0


def test_a_status_of_another_release_is_read_as_far_as_it_is_known() -> None:
    raw = {"metadata": {"namespace": "n", "name": "j", "uid": UID, "resourceVersion": "7"}, "spec": {}}
    raw["metadata"]["creationTimestamp"] = "2026-11-29T16:00:00Z"
    status = convert.job(
        raw | {"status": {"epoch": 4, "mood": "good", "members": [{"index": 0, "epoch": 4, "x": 1}]}}
    ).status
    assert (status.epoch, len(status.members)) == (4, 1)


def test_conditions_that_are_true_of_a_pod() -> None:
    raw = sample("running")
    assert converted(raw).conditions == {"Initialized", "Ready", "ContainersReady", "PodScheduled"}
    raw["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        {"type": "Ready", "status": "False"},
    ]
    assert converted(raw).conditions == {"DisruptionTarget"}
