"""What is asked for, and what of it counts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.cluster.room import LEAST_REUSED_SECONDS, Rooms
from ringtrain_operator.plan.room import Room
from support.scripted_api import Answer, ScriptedApi, by_path, says

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
OLD = "2020-01-01T00:00:00Z"
READY = [{"type": "Ready", "status": "True", "lastTransitionTime": OLD}]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def node(name: str = "a", cpu: int = 8, conditions: Any = READY, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": str(cpu), "pods": "110"}
    metadata = {"name": name, "uid": name, "creationTimestamp": OLD}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable, "conditions": conditions}}


def pod(on: str | None = "a", created: str = OLD, conditions: Any = (), **spec: Any) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "3"}}}
    placed = {"nodeName": on} if on is not None else {}
    return {
        "metadata": {"name": "p", "creationTimestamp": created},
        "spec": {"containers": [container]} | placed | spec,
        "status": {"conditions": list(conditions)},
    }


def server(nodes: Any = (), pods: Any = ()) -> ScriptedApi:
    return ScriptedApi(by_path({NODES: says(200, {"items": list(nodes)}), PODS: says(200, {"items": list(pods)})}))


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(asked: ScriptedApi, work: Callable[[Rooms], Awaitable[None]], clock: Any = None, **options: Any) -> None:
        async def with_rooms(api: KubernetesApi) -> None:
            await work(Rooms(api, clock or Clock(), **({"may_read": True} | options)))

        asked.ask(tmp_path, monkeypatch, with_rooms)

    return run


async def seen(rooms: Rooms) -> Room:
    async with rooms.look() as found:
        return found


def free(ask: Callable[..., None], *pods: Any) -> Any:
    """CPUs of the only node that are left."""
    found: list[Room] = []

    async def work(rooms: Rooms) -> None:
        found.append(await seen(rooms))

    ask(server([node()], pods), work)
    return found[0].places[0].free["cpu"]


def test_pods_take_room_where_they_are(ask: Callable[..., None]) -> None:
    assert free(ask, pod(), pod("other")) == 5


def test_pods_without_a_node_count_while_they_may_get_one(ask: Callable[..., None]) -> None:
    now = datetime.now(UTC).isoformat()
    for_room = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    assert free(ask, pod(None, created=now)) == 5
    assert free(ask, pod(None, conditions=[for_room])) == 5
    assert free(ask, pod(None)) == 8
    assert free(ask, pod(None, conditions=[for_room | {"message": "persistentvolumeclaim x not found"}])) == 8
    assert free(ask, pod(None, created=now, schedulingGates=[{"name": "queue"}])) == 8


def test_nodes_that_take_no_pods_have_no_room(ask: Callable[..., None]) -> None:
    async def work(rooms: Rooms) -> None:
        assert [place.name for place in (await seen(rooms)).places if not place.closed] == ["a"]

    unready = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": OLD}]
    ask(server([node(), node("b", unschedulable=True), node("c", conditions=unready)]), work)


def test_ended_pods_are_not_asked_for(ask: Callable[..., None]) -> None:
    asked = server([node()])

    async def work(rooms: Rooms) -> None:
        await seen(rooms)

    ask(asked, work)
    (pods,) = [request for request in asked.requests if request.path == PODS]
    assert pods.query["fieldSelector"] == "status.phase!=Succeeded,status.phase!=Failed"


def test_many_jobs_that_wait_ask_once(ask: Callable[..., None]) -> None:
    asked, clock = server([node()]), Clock()

    async def work(rooms: Rooms) -> None:
        await asyncio.gather(*(seen(rooms) for _ in range(20)))
        assert len(asked.requests) == 2
        clock.now += LEAST_REUSED_SECONDS
        await seen(rooms)
        assert len(asked.requests) == 4

    ask(asked, work, clock)


def test_what_was_taken_is_seen_by_the_next(ask: Callable[..., None]) -> None:
    pods: list[Any] = []
    asked = ScriptedApi(_live([node()], pods))
    order: list[tuple[str, int]] = []

    async def work(rooms: Rooms) -> None:
        async def job(name: str) -> None:
            async with rooms.look() as found:
                cpus = int(found.places[0].free["cpu"])
                order.append((name, cpus))
                await asyncio.sleep(0.05)
                if cpus >= 6:
                    pods.extend([pod(), pod()])
                    rooms.take()

        await asyncio.gather(job("one"), job("two"))

    ask(asked, work)
    assert sorted(cpus for _, cpus in order) == [2, 8]


def test_a_pod_that_is_created_while_somebody_looks_makes_them_look_again(ask: Callable[..., None]) -> None:
    asked = server([node()])

    async def work(rooms: Rooms) -> None:
        looking = asyncio.create_task(seen(rooms))
        while not asked.requests:
            await asyncio.sleep(0)
        rooms.take()
        await looking
        await seen(rooms)
        assert len(asked.requests) == 4

    ask(asked, work)


def test_without_the_right_to_look_it_says_so(ask: Callable[..., None]) -> None:
    refused = ScriptedApi(by_path({NODES: says(200, {"items": []}), PODS: says(403, {"reason": "Forbidden"})}))

    async def work(rooms: Rooms) -> None:
        assert "may list nodes and the pods of all namespaces" in (await seen(rooms)).hidden

    ask(refused, work)
    ask(server(), work, may_read=False)


def test_a_server_that_fails_fails_the_pass(ask: Callable[..., None]) -> None:
    async def work(rooms: Rooms) -> None:
        with pytest.raises(ApiError):
            await seen(rooms)

    ask(ScriptedApi(says(410, {"reason": "Gone"})), work)


def test_news_of_nodes(ask: Callable[..., None]) -> None:
    async def work(rooms: Rooms) -> None:
        assert rooms.is_news(node())
        await seen(rooms)
        assert not rooms.is_news(node())
        assert rooms.is_news(node(cpu=9))
        assert rooms.is_news(node(unschedulable=True))
        assert rooms.is_news(node("b"))

    ask(server([node()]), work)


def _live(nodes: list[Any], pods: list[Any]) -> Answer:
    """Answers with what the lists have by then."""

    async def answer(request: Any) -> Any:
        items = nodes if request.path == NODES else pods
        return await says(200, {"items": items})(request)

    return answer
