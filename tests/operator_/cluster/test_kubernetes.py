"""What the cluster is asked for, and in which order; tests/cluster has the same class on a real API server."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from operator_.plan.builders import KEY, NOW, SPEC, status
from ringtrain_operator.api.spec import ClaimTemplate
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.cluster import agents
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kinds import Kind, path
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.cluster.protocol import Conflict, Rejected
from ringtrain_operator.plan import children
from ringtrain_operator.plan.defaults import JobDefaults
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import Job, Observed
from ringtrain_operator.plan.result import Create, EndPod
from ringtrain_operator.reconcile import Pass, reconcile
from support.scripted_api import Answer, ScriptedApi, by_method, by_path, in_turn, says

T = TypeVar("T")
CHILDREN = tuple(kind for kind in Kind if kind not in (Kind.JOBS, Kind.NODES))
NAMESPACE = "/api/v1/namespaces/team"
JOB = path(Kind.JOBS, KEY.namespace, KEY.name)
CLAIM = path(Kind.CLAIMS, KEY.namespace, "disk")
LISTS = {path(kind, KEY.namespace): says(200, {"items": []}) for kind in CHILDREN}
NEW = TrainingJobStatus()
LOST = status(0, phase=JobPhase.RUNNING)
"""Of a job whose only pod was seen before."""


def stored(found: TrainingJobStatus = NEW, version: int = 1) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": KEY.namespace,
            "name": KEY.name,
            "uid": "job-uid",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-29T16:00:00Z",
        },
        "spec": dict(SPEC),
        "status": found.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


async def current(cluster: KubernetesCluster, found: TrainingJobStatus = NEW) -> Job:
    """The job, as the watches have shown it."""
    cluster.seen(Kind.JOBS, stored(found), deleted=False)
    for kind in (Kind.JOBS, *CHILDREN):
        cluster.listed(kind, [stored(found)] if kind is Kind.JOBS else [], (), 0)
    job = await cluster.get_job(KEY)
    assert job is not None
    return job


def ask(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[KubernetesCluster], Awaitable[T]],
    answers: dict[str, Answer],
) -> tuple[T, list[str]]:
    """What came of `work`, and the paths of the requests."""
    server = ScriptedApi(by_path(answers))
    found = server.ask(folder, monkeypatch, lambda api: work(KubernetesCluster(api, lambda: 1000.0)))
    return found, [request.path for request in server.requests]


async def observe(cluster: KubernetesCluster) -> Observed:
    return await cluster.observe(await current(cluster))


async def observe_lost(cluster: KubernetesCluster) -> Observed:
    return await cluster.observe(await current(cluster, LOST))


def test_a_job_that_the_watches_have_shown_is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def twice(cluster: KubernetesCluster) -> Observed:
        await observe(cluster)
        return await observe(cluster)

    observed, paths = ask(tmp_path, monkeypatch, twice, {CLAIM: says(200, {"metadata": {}})})
    # The user's own claim is not watched.
    assert paths == [CLAIM]
    assert observed.claim_exists
    assert not observed.namespace_ending


def test_a_job_of_which_nothing_is_known_is_read_before_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, paths = ask(tmp_path, monkeypatch, lambda cluster: cluster.get_job(KEY), {JOB: says(200, stored())} | LISTS)
    assert job is not None
    assert paths[0] == JOB
    assert set(paths[1:]) == set(LISTS)


def test_a_conflict_is_followed_by_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(cluster: KubernetesCluster) -> str:
        job = await current(cluster)
        with pytest.raises(Conflict):
            await cluster.write_status(job, TrainingJobStatus(message="new"))
        again = await cluster.get_job(KEY)
        assert again is not None
        return again.resource_version

    conflict = says(409, {"reason": "Conflict", "message": "changed"})
    answers = {f"{JOB}/status": conflict, JOB: says(200, stored(version=7))} | LISTS
    assert ask(tmp_path, monkeypatch, work, answers)[0] == "7"


def test_what_was_written_is_known_at_once_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = TrainingJobStatus(message="new")

    async def work(cluster: KubernetesCluster) -> Job | None:
        await cluster.write_status(await current(cluster), new)
        # The watch is behind.
        assert cluster.seen(Kind.JOBS, stored(version=2), deleted=False) == ()
        return await cluster.get_job(KEY)

    job, paths = ask(tmp_path, monkeypatch, work, {f"{JOB}/status": says(200, stored(new, version=3))})
    assert job is not None
    assert (job.status, job.resource_version) == (new, "3")
    assert job.written is not None
    assert paths == [f"{JOB}/status"]


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (says(200, {"metadata": {"name": "team"}}), False),
        (says(200, {"metadata": {"name": "team", "deletionTimestamp": "2026-11-29T16:00:00Z"}}), True),
        (says(404, {"reason": "NotFound", "message": "not found"}), True),
    ],
)
def test_the_namespace_is_asked_for_when_a_pod_is_gone(
    answer: Answer, ending: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed, paths = ask(tmp_path, monkeypatch, observe_lost, {NAMESPACE: answer})
    assert NAMESPACE in paths
    assert observed.namespace_ending is ending


def test_a_claim_that_is_missing_is_asked_for_in_each_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def three_times(cluster: KubernetesCluster) -> list[bool]:
        return [(await observe(cluster)).claim_exists for _ in range(3)]

    missing = says(404, {"reason": "NotFound", "message": "not found"})
    found, paths = ask(tmp_path, monkeypatch, three_times, {CLAIM: in_turn(missing, says(200, {"metadata": {}}))})
    assert found == [False, True, True]
    assert paths == [CLAIM] * 2


async def delete_job(cluster: KubernetesCluster) -> None:
    await cluster.delete_job(await current(cluster))


def test_a_job_is_deleted_as_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({JOB: says(200, {})}))
    server.ask(tmp_path, monkeypatch, lambda api: delete_job(KubernetesCluster(api, lambda: 1000.0)))
    assert [request.method for request in server.requests] == ["DELETE"]
    assert json.loads(server.bodies[0])["preconditions"] == {"uid": "job-uid", "resourceVersion": "1"}


def test_a_job_that_is_gone_already_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(tmp_path, monkeypatch, delete_job, {})


def test_a_job_that_was_changed_is_read_anew_before_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(cluster: KubernetesCluster) -> None:
        with pytest.raises(Conflict):
            await delete_job(cluster)
        await cluster.get_job(KEY)

    answers = {JOB: in_turn(says(409, {"reason": "Conflict", "message": "changed"}), says(200, stored()))}
    _, paths = ask(tmp_path, monkeypatch, refused, answers | LISTS)
    assert paths[:2] == [JOB, JOB]


@pytest.mark.parametrize("labels", [{"ringtrain.io/job": KEY.name}, {}])
def test_only_a_claim_that_an_earlier_job_has_left_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str]
) -> None:
    left = {"metadata": {"namespace": "team", "name": "gpt-checkpoints", "uid": "u", "resourceVersion": "1"}}
    left["metadata"]["labels"] = labels  # type: ignore[assignment]
    exists = says(409, {"reason": "AlreadyExists", "message": "it is there"})

    async def create(cluster: KubernetesCluster) -> bool:
        job = await current(cluster)
        try:
            await cluster.create(job, Create(children.claim(job, ClaimTemplate(storage="1Gi"))))
        except Rejected:
            return False
        return True

    claims = path(Kind.CLAIMS, KEY.namespace)
    answers = {claims: exists, f"{claims}/gpt-checkpoints": says(200, left)}
    used, _ = ask(tmp_path, monkeypatch, create, answers)
    assert used is bool(labels)


@pytest.mark.parametrize("status", [200, 404, 409])
def test_a_pod_is_ended_by_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """One that is gone, or another one by now, is left alone."""

    async def end(cluster: KubernetesCluster) -> None:
        await cluster.end_pod(await current(cluster), EndPod("gpt-0-0", "uid"))

    metadata = {"namespace": "team", "name": "gpt-0-0", "uid": "uid", "resourceVersion": "2"}
    metadata |= {"creationTimestamp": "2026-11-29T16:00:00Z", "labels": {"ringtrain.io/job": KEY.name}}  # type: ignore[dict-item]
    answer = {"metadata": metadata, "spec": {}} if status == 200 else {"reason": "Conflict", "message": "no"}
    server = ScriptedApi(by_path({path(Kind.PODS, KEY.namespace, "gpt-0-0"): says(status, answer)}))
    server.ask(tmp_path, monkeypatch, lambda api: end(KubernetesCluster(api, lambda: 1000.0)))
    assert [request.method for request in server.requests] == ["PATCH"]
    assert json.loads(server.bodies[0]) == {"metadata": {"uid": "uid"}, "spec": {"activeDeadlineSeconds": 1}}


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_repair_waits_for_no_agent(phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def unreachable(host: str, *_: object) -> tuple[int, bytes]:
        asked.append(host)
        raise OSError("no answer")

    monkeypatch.setattr(agents, "get", unreachable)

    async def work(cluster: KubernetesCluster) -> Observed:
        job = await current(cluster, status(0, 0))
        for index, now in enumerate(("Running", phase)):
            cluster.seen(Kind.PODS, stored_pod(index, now), deleted=False)
        return await cluster.observe(job)

    observed, _ = ask(tmp_path, monkeypatch, work, {CLAIM: says(200, {"metadata": {}})})
    assert len(observed.pods) == 2
    assert bool(asked) is (phase == "Running")


def stored_pod(index: int, phase: str) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": KEY.namespace,
            "name": f"{KEY.name}-{index}-0",
            "uid": f"uid-{index}-0",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-29T16:00:00Z",
            "labels": {LABEL_JOB: KEY.name},
            "ownerReferences": [{"uid": "job-uid", "controller": True}],
        },
        "spec": {},
        "status": {"phase": phase, "podIP": f"198.18.0.{index}"},
    }


def test_a_job_that_found_no_room_looks_again_when_some_may_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {
        "metadata": {"name": "n", "creationTimestamp": "2026-11-29T16:00:00Z"},
        "spec": {},
        "status": {"allocatable": {"cpu": "1"}},
    }
    tainted = node | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    other = {"name": "x-0-0", "namespace": "team", "uid": "x", "labels": {LABEL_JOB: "x"}, "resourceVersion": "1"}
    pod = {"metadata": other | {"creationTimestamp": "2026-11-29T16:00:00Z"}, "spec": {}, "status": {}}

    async def work(cluster: KubernetesCluster) -> None:
        job = await current(cluster)
        async with cluster.look_for_room(job):
            assert cluster.seen(Kind.NODES, node, deleted=False) == ()
            assert cluster.seen(Kind.NODES, tainted, deleted=False) == (KEY,)
            assert KEY not in cluster.seen(Kind.PODS, pod, deleted=False)
            ended = pod | {"metadata": pod["metadata"] | {"resourceVersion": "2"}, "status": {"phase": "Failed"}}
            assert KEY in cluster.seen(Kind.PODS, ended, deleted=False)
            assert KEY in cluster.seen(Kind.PODS, ended, deleted=True)
        await cluster.get_job(KEY)
        assert cluster.seen(Kind.NODES, tainted, deleted=False) == ()

    lists = {"/api/v1/nodes": says(200, {"items": [node]}), "/api/v1/pods": says(200, {"items": []})}
    ask(tmp_path, monkeypatch, work, lists)


def test_pods_are_made_of_the_defaults_of_their_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = {name: value for name, value in SPEC.items() if name != "image"}
    found = stored() | {"spec": without}
    defaults = JobDefaults({"image": "cluster:1", "shmSize": "1Gi"}, {KEY.namespace: {"image": "team:1"}})

    async def written(request: web.Request) -> web.Response:
        found["status"] = (await request.json())["status"]
        found["metadata"]["resourceVersion"] = "2"
        return web.json_response(found)

    async def created(request: web.Request) -> web.Response:
        made = await request.json()
        made["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-11-29T16:00:00Z"}
        return web.json_response(made)

    async def one_pass(api: KubernetesApi) -> Pass:
        return await reconcile(KubernetesCluster(api, lambda: 1000.0, defaults=defaults), KEY, NOW)

    creates = {
        path(kind, KEY.namespace): by_method(GET=LISTS[path(kind, KEY.namespace)], POST=created) for kind in CHILDREN
    }
    events = "/api/v1/namespaces/team/events"
    answers = {JOB: says(200, found), f"{JOB}/status": written, CLAIM: says(200, {"metadata": {}}), events: created}
    server = ScriptedApi(by_path(answers | creates))
    done = server.ask(tmp_path, monkeypatch, one_pass)
    assert done.status is not None
    assert json.loads(done.status.inherited) == {"image": "team:1", "shmSize": "1Gi"}
    sent = [
        json.loads(body)
        for request, body in zip(server.requests, server.bodies, strict=True)
        if request.method in ("PUT", "POST")
    ]
    status_written = next(body for body in sent if body["kind"] == "TrainingJob")
    assert status_written["spec"] == without, "what is inherited is no part of the user's spec"
    assert found["status"]["inherited"] == done.status.inherited
    pods = [body["spec"] for body in sent if body["kind"] == "Pod"]
    assert [pod["containers"][0]["image"] for pod in pods] == ["team:1"] * 3
    assert {pod["volumes"][0]["emptyDir"]["sizeLimit"] for pod in pods} == {"1Gi"}
