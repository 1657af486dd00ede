"""The cluster protocol on one machine, with small real processes in the agents' place."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ringtrain.contract.addresses import Addresses
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.cluster.protocol import Conflict
from ringtrain_operator.local.cluster import LocalCluster
from ringtrain_operator.local.container import Machine
from ringtrain_operator.local.run_directory import RunDirectory, RunDirectoryLost
from ringtrain_operator.plan.observed import Job, JobKey, PodPhase
from ringtrain_operator.plan.result import Create, DeletePod, Event
from support.environments import replica_environment

pytestmark = pytest.mark.distributed

KEY = JobKey("default", "small")
SLEEP = "import time; time.sleep(120)"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.open(tmp_path / "small", KEY) as directory:
        yield directory


def pod(code: str = SLEEP, name: str = "small-0-0") -> Create:
    environment = replica_environment(job="small", addresses=Addresses("dns", "small.small.default.svc"))
    container = {
        "name": "trainer",
        "command": [sys.executable, "-c", code],
        "env": [{"name": key, "value": value} for key, value in environment.to_env().items()],
    }
    return Create({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})


def play(
    directory: RunDirectory, scenario: Callable[[LocalCluster, Job], Awaitable[None]], events: list[Event] | None = None
) -> None:
    """Plays `scenario` with a new cluster, whose pods work in the run directory's parent."""

    async def whole() -> None:
        machine = Machine(
            addresses=Addresses("loopback", f"127.{100 + os.getpid() % 100}"),
            checkpoints=directory.checkpoints,
            base_environment=os.environ,
        )
        found = [] if events is None else events
        cluster = LocalCluster(
            KEY, {"image": "x"}, TrainingJobStatus(epoch=4), directory, machine, directory.root.parent, found.append
        )
        try:
            job = await cluster.get_job(KEY)
            assert job is not None
            await asyncio.wait_for(scenario(cluster, job), 60)
        finally:
            await cluster.close()
            assert not cluster.running

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_a_pod_is_created_once_observed_and_deleted_by_uid(directory: RunDirectory) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        await cluster.create(job, pod())
        (first,) = (await cluster.observe(job)).pods
        assert (first.name, first.phase, first.index, first.epoch) == ("small-0-0", PodPhase.RUNNING, 0, 0)
        await cluster.create(job, pod())
        assert [found.uid for found in cluster.pods] == [first.uid]
        await cluster.delete_pod(job, DeletePod("small-0-0", "another-uid"))
        await cluster.delete_pod(job, DeletePod("small-9-9", first.uid))
        assert not cluster.pods[0].deleting
        await cluster.delete_pod(job, DeletePod("small-0-0", first.uid))
        await until(lambda: not cluster.pods)

    play(directory, scenario)


def test_a_job_that_is_deleted_is_gone(directory: RunDirectory) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        await cluster.write_status(job, TrainingJobStatus(epoch=5))
        with pytest.raises(Conflict):
            await cluster.delete_job(job)
        job = await cluster.get_job(KEY) or job
        await cluster.delete_job(job)
        assert await cluster.get_job(KEY) is None

    play(directory, scenario)


def test_an_ended_pod_stays_until_it_is_deleted(directory: RunDirectory) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        await cluster.create(job, pod("print('hello'); raise SystemExit(70)"))
        await until(lambda: not cluster.running)
        (ended,) = (await cluster.observe(job)).pods
        assert (ended.phase, ended.exit_code) == (PodPhase.FAILED, 70)
        assert cluster.log_of("small-0-0").read_text() == "hello\n"
        await cluster.delete_pod(job, DeletePod(ended.name, ended.uid, force=True))
        await until(lambda: not cluster.pods)

    play(directory, scenario)


def test_services_and_claims_exist_at_once(directory: RunDirectory) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        before = await cluster.observe(job)
        assert (before.service_exists, before.claim_exists, before.report) == (False, True, None)
        await cluster.create(job, Create({"kind": "Service", "metadata": {"name": "small"}}))
        assert (await cluster.observe(job)).service_exists

    play(directory, scenario)


def test_status_is_mirrored_and_guarded_against_old_readers(directory: RunDirectory) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        await cluster.write_status(job, TrainingJobStatus(epoch=5))
        assert directory.read_status() == cluster.status == TrainingJobStatus(epoch=5)
        with pytest.raises(Conflict):
            await cluster.write_status(job, TrainingJobStatus(epoch=6))
        newer = await cluster.get_job(KEY)
        assert newer is not None
        await cluster.write_status(newer, TrainingJobStatus(epoch=6))
        assert cluster.status.epoch == 6
        assert await cluster.get_job(JobKey("default", "other")) is None

    play(directory, scenario)


def test_a_status_that_cannot_be_mirrored_costs_the_mirror_only(directory: RunDirectory) -> None:
    events: list[Event] = []

    async def scenario(cluster: LocalCluster, job: Job) -> None:
        # A folder in the way: what writing meets on a full disk, also for root.
        (directory.root / "status.json.new").mkdir()
        for epoch in (5, 6):
            await cluster.write_status(await _again(cluster), TrainingJobStatus(epoch=epoch))
            assert cluster.status.epoch == epoch
        # It is told, and once.
        assert [event.reason for event in events] == ["NotWritten"]
        assert "status.json.new cannot be written: Is a directory" in events[0].message
        (directory.root / "status.json.new").rmdir()
        await cluster.write_status(await _again(cluster), TrainingJobStatus(epoch=7))
        assert directory.read_status() == TrainingJobStatus(epoch=7)

    play(directory, scenario, events)


def test_a_pod_needs_no_files(directory: RunDirectory) -> None:
    events: list[Event] = []

    async def scenario(cluster: LocalCluster, job: Job) -> None:
        (directory.root / "pods").touch()
        last_words = "open(os.environ['RINGTRAIN_TERMINATION_LOG'], 'w').write('it was full')"
        await cluster.create(job, pod(f"import os; print('hello'); {last_words}; raise SystemExit(70)"))
        await until(lambda: not cluster.running)
        assert [(ended.exit_code, ended.message) for ended in cluster.pods] == [(70, "it was full")]
        assert {event.reason for event in events} == {"NotWritten"}

    play(directory, scenario, events)


@pytest.mark.parametrize("anew", [False, True])
def test_a_run_directory_that_is_deleted_ends_the_run(directory: RunDirectory, anew: bool) -> None:
    async def scenario(cluster: LocalCluster, job: Job) -> None:
        shutil.rmtree(directory.root)
        if anew:
            RunDirectory.open(directory.root, KEY).__exit__(None, None, None)
        with pytest.raises(RunDirectoryLost, match=f"{directory.root} was deleted or replaced"):
            await cluster.get_job(KEY)
        if not anew:
            with pytest.raises(RunDirectoryLost):
                await cluster.write_status(job, TrainingJobStatus(epoch=5))

    play(directory, scenario)


def test_events_are_passed_on(directory: RunDirectory) -> None:
    event, events = Event("Normal", "Started", "creating 1 pod"), list[Event]()

    async def scenario(cluster: LocalCluster, job: Job) -> None:
        await cluster.emit(job, event)

    play(directory, scenario, events)
    assert events == [event]


async def _again(cluster: LocalCluster) -> Job:
    job = await cluster.get_job(KEY)
    assert job is not None
    return job
