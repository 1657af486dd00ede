"""The Cluster protocol on a real API server. No operator runs over these jobs."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from ringtrain_operator.api.spec import GROUP, KIND, PLURAL, VERSION, ClaimTemplate
from ringtrain_operator.api.status import JobPhase, Member, TrainingJobStatus
from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.cluster.protocol import Conflict, Rejected
from ringtrain_operator.plan import children
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import Job, JobKey, Observed, PodPhase
from ringtrain_operator.plan.result import Create, DeletePod, Event
from support.kube import Kube

pytestmark = pytest.mark.cluster

T = TypeVar("T")
NAME = "job"
SPEC: dict[str, Any] = {
    "image": "localhost/no-such:1",
    "device": "cpu",
    "command": ["train"],
    "checkpoint": {"volume": {"claimTemplate": {"storage": "1Mi"}}},
}


class World:
    """A namespace of its own on the API server, and what runs in it; `run` is the test's event loop."""

    def __init__(self, runner: asyncio.Runner, api: KubernetesApi, namespace: str) -> None:
        self.run = runner.run
        self.api = api
        self.namespace = namespace
        self.cluster = KubernetesCluster(api, time.monotonic)
        self.key = JobKey(namespace, NAME)

    def path(self, plural: str, name: str = "") -> str:
        root = f"/apis/{GROUP}/{VERSION}" if plural == PLURAL else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def post(self, plural: str, manifest: dict[str, Any]) -> dict[str, Any]:
        return self.run(self.api.request("POST", self.path(plural), body=manifest))

    def delete(self, plural: str, name: str) -> None:
        self.run(self.api.request("DELETE", self.path(plural, name)))

    def list(self, plural: str) -> list[dict[str, Any]]:
        return self.run(self.api.list(self.path(plural)))

    def make_job(self) -> Job:
        body = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": {"name": NAME}, "spec": SPEC}
        self.post(PLURAL, body)
        return self.job()

    def job(self) -> Job:
        job = self.run(self.cluster.get_job(self.key))
        assert job is not None
        return job

    def observe(self) -> Observed:
        return self.run(self.cluster.observe(self.job()))

    def until(self, condition: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + 60
        while not (found := condition()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.1)
        return found


@pytest.fixture
def world(kube: Kube, no_operator: Kube) -> Iterator[World]:
    with asyncio.Runner() as runner:
        connection = KubernetesApi.connect()
        api = runner.run(connection.__aenter__())
        try:
            yield World(runner, api, kube.namespace)
        finally:
            runner.run(connection.__aexit__(None, None, None))


def pod(job: Job, name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "localhost/no-such:1", "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": children.metadata(job, name),
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


def test_a_job_as_stored(world: World) -> None:
    assert world.run(world.cluster.get_job(world.key)) is None
    job = world.make_job()
    assert job.key == world.key
    assert job.generation == 1
    assert job.spec["image"] == SPEC["image"]
    assert job.status == TrainingJobStatus()
    assert not job.deleting


def test_status_is_replaced_as_a_whole_and_spec_is_left_alone(world: World) -> None:
    job = world.make_job()
    first = TrainingJobStatus(
        phase=JobPhase.RUNNING,
        message="trains",
        members=(Member(index=0, epoch=3, pod_uid="u"),),
        start_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        loss="1.5",
    )
    world.run(world.cluster.write_status(job, first))
    stored = world.job()
    assert stored.status == first
    assert stored.generation == 1
    assert stored.spec == job.spec
    world.run(world.cluster.write_status(stored, TrainingJobStatus(phase=JobPhase.PENDING)))
    assert world.job().status == TrainingJobStatus(phase=JobPhase.PENDING)


def test_an_outdated_status_is_a_conflict(world: World) -> None:
    job = world.make_job()
    world.run(world.cluster.write_status(job, TrainingJobStatus(message="first")))
    with pytest.raises(Conflict):
        world.run(world.cluster.write_status(job, TrainingJobStatus(message="second")))
    assert world.job().status.message == "first"
    world.delete(PLURAL, NAME)
    with pytest.raises(Conflict):
        world.run(world.cluster.write_status(job, TrainingJobStatus(message="third")))


def test_children_are_created_once_and_observed(world: World) -> None:
    job = world.make_job()
    before = world.observe()
    assert (before.pods, before.service_exists, before.claim_exists) == ((), False, False)
    claim = children.claim(job, ClaimTemplate(storage="1Mi"))
    for _ in range(2):
        for manifest in (children.service(job), claim, pod(job, "job-0-0"), pod(job, "job-1-0")):
            world.run(world.cluster.create(job, Create(manifest)))
    seen = world.observe()
    assert sorted((pod.index, pod.epoch, pod.foreign) for pod in seen.pods) == [(0, 0, False), (1, 0, False)]
    assert seen.service_exists
    assert seen.claim_exists
    assert seen.refused == ""
    assert seen.report is None


def test_nodes_of_pods_are_observed_and_their_jobs_are_known(world: World) -> None:
    job = world.make_job()
    world.run(world.cluster.create(job, Create(pod(job, "job-0-0"))))
    observed = world.until(lambda: seen if (seen := world.observe()).nodes else None)
    (node,) = observed.nodes.values()
    assert node.ready
    assert world.cluster.jobs_on(node.name) == (world.key,)
    world.delete(PLURAL, NAME)
    world.until(lambda: world.run(world.cluster.get_job(world.key)) is None)
    assert world.cluster.jobs_on(node.name) == ()


def test_a_pod_that_cannot_run_says_why(world: World) -> None:
    job = world.make_job()
    unschedulable = pod(job, "job-0-0", nodeSelector={"no": "such"})
    for manifest in (unschedulable, pod(job, "job-1-0")):
        world.run(world.cluster.create(job, Create(manifest)))

    def reasons() -> set[str] | None:
        found = {pod.waiting_reason for pod in world.observe().pods}
        return found if found == {"Unschedulable", "ErrImageNeverPull"} else None

    world.until(reasons)


def test_a_refused_create_is_remembered_until_one_succeeds(world: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    world.post("resourcequotas", quota)
    world.until(lambda: world.list("resourcequotas")[0].get("status", {}).get("hard"))
    job = world.make_job()
    for _ in range(2):
        with pytest.raises(Rejected, match="exceeded quota: q"):
            world.run(world.cluster.create(job, Create(pod(job, "job-0-0"))))
    assert "exceeded quota: q" in world.observe().refused
    (event,) = world.list("events")
    assert (event["reason"], event["type"], event.get("count")) == ("CreateFailed", "Warning", 1)
    world.delete("resourcequotas", "q")

    def created() -> bool:
        try:
            world.run(world.cluster.create(job, Create(pod(job, "job-0-0"))))
        except Rejected:
            return False
        return True

    world.until(created)
    assert world.observe().refused == ""


def test_what_is_not_the_jobs_is_not_taken_over(world: World) -> None:
    job = world.make_job()
    service = children.service(job)
    del service["metadata"]["ownerReferences"]
    world.post("services", service)
    assert not world.observe().service_exists
    with pytest.raises(Rejected, match="Service job exists already and is not this job's"):
        world.run(world.cluster.create(job, Create(children.service(job))))


def test_pods_of_an_earlier_job_of_the_name_are_foreign(world: World) -> None:
    job = world.make_job()
    stray = pod(job, "job-0-0")
    del stray["metadata"]["ownerReferences"]
    assert stray["metadata"]["labels"][LABEL_JOB] == NAME
    world.post("pods", stray)
    (seen,) = world.observe().pods
    assert seen.foreign


def test_only_the_very_pod_is_deleted(world: World) -> None:
    job = world.make_job()
    world.run(world.cluster.create(job, Create(pod(job, "job-0-0"))))
    (seen,) = world.observe().pods
    assert seen.phase is PodPhase.PENDING
    world.run(world.cluster.delete_pod(job, DeletePod("job-0-0", uid="another", force=True)))
    assert len(world.observe().pods) == 1
    for _ in range(2):
        world.run(world.cluster.delete_pod(job, DeletePod("job-0-0", uid=seen.uid, force=True)))
        assert world.observe().pods == ()


def test_a_pod_without_force_gets_its_grace(world: World) -> None:
    job = world.make_job()
    world.run(world.cluster.create(job, Create(pod(job, "job-0-0"))))
    scheduled = world.until(lambda: next((pod for pod in world.observe().pods if pod.node), None))
    world.run(world.cluster.delete_pod(job, DeletePod("job-0-0", uid=scheduled.uid)))
    assert all(pod.deleting for pod in world.observe().pods)
    world.until(lambda: not world.observe().pods)


def test_repeated_events_are_counted(world: World) -> None:
    job = world.make_job()
    for message in ("one", "two", "one", "one"):
        world.run(world.cluster.emit(job, Event("Warning", "Hang", message)))
    events = {event["message"]: event for event in world.list("events")}
    assert {message: event["count"] for message, event in events.items()} == {"one": 3, "two": 1}
    assert events["one"]["involvedObject"]["uid"] == job.uid
    assert events["one"]["source"]["component"] == "ringtrain-operator"


def test_an_event_that_cannot_be_posted_breaks_nothing(world: World) -> None:
    job = world.make_job()
    elsewhere = JobKey("no-such-namespace", NAME)
    lost = Job(
        key=elsewhere,
        uid=job.uid,
        resource_version="1",
        generation=1,
        spec={},
        status=job.status,
        created=job.created,
    )
    world.run(world.cluster.emit(lost, Event("Normal", "Started", "m")))


def test_errors_of_the_server_are_told(world: World) -> None:
    job = world.make_job()
    with pytest.raises(ApiError, match="round"):
        world.run(world.cluster.write_status(job, TrainingJobStatus(round=2**70)))
