import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.nodes import FRESH_SECONDS, Nodes
from support.scripted_api import ScriptedApi, by_path, says

SAMPLES: dict[str, Any] = json.loads((Path(__file__).parent / "samples.json").read_text())["nodes"]
PATH = "/api/v1/nodes/node-1"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_many_jobs_ask_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({PATH: says(200, SAMPLES["node-1"])}))
    clock = Clock()

    async def work(api: KubernetesApi) -> None:
        nodes = Nodes(api, clock)
        for found in await asyncio.gather(*(nodes.get(["node-1", "gone"]) for _ in range(20))):
            assert set(found) == {"node-1"}
            assert found["node-1"].ready
        assert sorted(request.path for request in server.requests) == ["/api/v1/nodes/gone", PATH]
        clock.now += FRESH_SECONDS + 0.1
        await nodes.get(["node-1"])
        assert len(server.requests) == 3

    server.ask(tmp_path, monkeypatch, work)


def test_a_watch_is_believed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({PATH: says(200, SAMPLES["node-1"])}))
    dead = SAMPLES["node-3"] | {"metadata": SAMPLES["node-1"]["metadata"]}

    async def work(api: KubernetesApi) -> None:
        clock = Clock()
        nodes = Nodes(api, clock)
        assert (await nodes.get(["node-1"]))["node-1"].ready
        assert not nodes.event(SAMPLES["node-1"])
        assert nodes.event(dead)
        clock.now += 1000
        assert not (await nodes.get(["node-1"]))["node-1"].ready
        assert len(server.requests) == 1
        nodes.deleted("node-1")
        assert nodes.event(SAMPLES["node-1"])

    server.ask(tmp_path, monkeypatch, work)


def test_nodes_that_may_not_be_read_are_taken_to_be_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(by_path({}))

    async def work(api: KubernetesApi) -> None:
        found = await Nodes(api, Clock(), may_read=False).get(["node-1"])
        assert found["node-1"].ready

    server.ask(tmp_path, monkeypatch, work)
    assert server.requests == []
