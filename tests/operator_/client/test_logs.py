"""Logs of pods against a server that behaves as API servers and kubelets do."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from ringtrain_operator.client import LogLine, TrainingJobs
from ringtrain_operator.client import logs as logs_module
from ringtrain_operator.client.logs import PodLogs, Sight, log_line
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.plan.observed import Pod, PodPhase
from support.scripted_api import Answer, ScriptedApi, by_path, in_turn, says

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def pod(index: int, epoch: int = 0, *, exit_code: int | None = None) -> Pod:
    phase = PodPhase.RUNNING if exit_code is None else PodPhase.SUCCEEDED
    name = f"gpt-{index}-{epoch}"
    return Pod(name=name, uid=name, index=index, epoch=epoch, phase=phase, created=CREATED, exit_code=exit_code)


def path(name: str) -> str:
    return f"/api/v1/namespaces/team/pods/{name}/log"


def line(second: float, text: str) -> str:
    return f"2026-01-01T00:00:{second:012.9f}Z {text}\n"


def writes(*lines: str, dies: bool = False) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for text in lines:
            await response.write(text.encode())
        if dies:
            assert request.transport is not None
            await asyncio.sleep(0.05)
            request.transport.abort()
        return response

    return answer


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "LOOK_SECONDS", 0.05)


async def followed(api: KubernetesApi, *sights: Sight, tail: int | None = None) -> list[str]:
    """The last sight for ever."""
    left = list(sights)

    async def look() -> Sight:
        return left.pop(0) if len(left) > 1 else left[0]

    async with aclosing(PodLogs(api, "team").follow(look, tail)) as lines:
        return [f"{found.pod} {found.text}" async for found in lines]


def test_the_logs_of_all_pods_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(
        by_path(
            {
                path("gpt-0-0"): writes(line(1, "a"), line(3, "c"), "unable to retrieve container logs for x\n"),
                path("gpt-1-0"): writes(line(2, "b"), line(4, "d").rstrip("\n")),
                path("gpt-2-0"): says(400, {"message": "waiting to start"}),
            }
        )
    )

    async def read(api: KubernetesApi) -> list[str]:
        pods = (pod(0), pod(1), pod(2))
        return [found.text async for found in PodLogs(api, "team").so_far(pods, tail=5)]

    assert server.ask(tmp_path, monkeypatch, read) == ["a", "b", "c", "d"]
    assert {request.query["tailLines"] for request in server.requests} == {"5"}
    assert {request.query["container"] for request in server.requests} == {"trainer"}


def test_a_replaced_pod_is_followed_by_its_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(
        by_path({path("gpt-0-0"): writes(line(1, "old")), path("gpt-0-1"): writes(line(2, "new"), line(3, "done"))})
    )
    sights = (
        Sight((pod(0),), over=False),
        Sight((), over=False),
        Sight((pod(0, 1),), over=False),
        Sight((pod(0, 1, exit_code=0),), over=True),
    )
    assert server.ask(tmp_path, monkeypatch, lambda api: followed(api, *sights)) == [
        "gpt-0-0 old",
        "gpt-0-1 new",
        "gpt-0-1 done",
    ]


def test_a_lost_connection_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = writes(line(1.1, "a"), line(1.2, "b"), dies=True)
    # The API gives whole seconds: what was seen comes again.
    again = writes(line(1.1, "a"), line(1.2, "b"), line(1.3, "c"))
    server = ScriptedApi(by_path({path("gpt-0-0"): in_turn(first, again)}))
    sights = (Sight((pod(0),), over=False),) * 4 + (Sight((pod(0, exit_code=0),), over=True),)
    assert server.ask(tmp_path, monkeypatch, lambda api: followed(api, *sights, tail=2)) == [
        "gpt-0-0 a",
        "gpt-0-0 b",
        "gpt-0-0 c",
    ]
    assert "tailLines" in server.requests[0].query
    assert server.requests[1].query["sinceTime"] == "2026-01-01T00:00:01Z"
    assert "tailLines" not in server.requests[1].query


def test_a_job_that_is_over_without_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({}))
    assert server.ask(tmp_path, monkeypatch, lambda api: followed(api, Sight((), over=True))) == []


def test_a_pod_that_is_gone_before_it_could_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({}))
    sights = (Sight((pod(0),), over=False), Sight((), over=True))
    assert server.ask(tmp_path, monkeypatch, lambda api: followed(api, *sights)) == []


@pytest.mark.parametrize(
    ("processes", "chosen", "told"),
    [
        (2, {}, [(None, "agent"), (2, "a"), (3, "b"), (None, "agent")]),
        (2, {"replica": 1}, [(None, "agent"), (2, "a"), (3, "b")]),
        (2, {"rank": 3}, [(3, "b")]),
        (2, {"rank": 0}, []),
        # Only a replica of several ranks has prefixes: this is a program's own.
        (1, {"rank": 1}, [(None, "agent"), (None, "[rank 2] a"), (None, "[rank 3] b")]),
    ],
)
@pytest.mark.parametrize("follow", [False, True])
def test_lines_of_ranks_are_told_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
    chosen: dict[str, int],
    told: list[tuple[int | None, str]],
    follow: bool,
) -> None:
    job = {
        "metadata": {"name": "gpt", "namespace": "team", "uid": "job"},
        "spec": {"replicas": 2, "procsPerReplica": processes},
        "status": {"phase": "Succeeded"},
    }
    ended = {"name": "trainer", "state": {"terminated": {"exitCode": 0}}}
    pods = [
        {
            "metadata": {
                "name": name,
                "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"uid": "job", "controller": True}],
            },
            "spec": {},
            "status": {"phase": "Succeeded", "containerStatuses": [ended]},
        }
        for name in ("gpt-0-0", "gpt-1-0")
    ]
    server = ScriptedApi(
        by_path(
            {
                "/apis/ringtrain.io/v1alpha1/namespaces/team/trainingjobs/gpt": says(200, job),
                "/api/v1/namespaces/team/pods": says(200, {"metadata": {}, "items": pods}),
                path("gpt-0-0"): writes(line(4, "agent")),
                path("gpt-1-0"): writes(line(1, "agent"), line(2, "[rank 2] a"), line(3, "[rank 3] b")),
            }
        )
    )

    async def read(api: KubernetesApi) -> list[LogLine]:
        async with aclosing(TrainingJobs(api, "team").logs("gpt", follow=follow, **chosen)) as lines:
            return [found async for found in lines]

    found = server.ask(tmp_path, monkeypatch, read)
    assert [(one.rank, one.text) for one in sorted(found, key=lambda one: str(one.time))] == told


def test_lines() -> None:
    found = log_line(pod(3), b"2026-01-01T00:00:01.123456789Z text with \xff\r")
    assert found is not None
    assert (found.replica, found.pod, found.text) == (3, "gpt-3-0", "text with �")
    assert found.time == datetime(2026, 1, 1, 0, 0, 1, 123456, tzinfo=UTC)
