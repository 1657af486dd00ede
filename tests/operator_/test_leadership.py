"""What a leader does when its lease is in danger; tests/cluster/test_fail_over.py has two operators on a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.election import claimed
from ringtrain_operator.leadership import Leadership, LeadershipLost, LeaseName
from support.scripted_api import Answer, ScriptedApi, in_turn, says

SECONDS = 3.0


def lease(holder: str) -> dict[str, object]:
    metadata = {"namespace": "n", "name": "l", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": claimed(None, holder, SECONDS, datetime.now(UTC))}


NONE = says(404, {"reason": "NotFound", "message": "no"})
MINE, TAKEN = says(200, lease("me")), says(200, lease("other"))
CONFLICT = says(409, {"reason": "Conflict", "message": "changed"})
DOWN = says(503, {"reason": "ServiceUnavailable", "message": "down"})


def lead(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, work: Callable[[Leadership], Awaitable[None]]
) -> list[str]:
    """The verbs of the requests."""

    async def run(api: KubernetesApi) -> None:
        loop = asyncio.get_running_loop()
        await work(Leadership(api, LeaseName("n", "l"), "me", SECONDS, loop.time))

    server = ScriptedApi(answer)
    server.ask(folder, monkeypatch, run)
    return [request.method for request in server.requests]


def test_a_lease_that_another_took_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(leadership: Leadership) -> None:
        await leadership.acquire()
        with pytest.raises(LeadershipLost, match="other has taken the lease"):
            await leadership.keep()

    assert lead(tmp_path, monkeypatch, in_turn(NONE, MINE, CONFLICT, TAKEN), work) == ["GET", "POST", "PUT", "GET"]


def test_a_lease_that_cannot_be_renewed_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(leadership: Leadership) -> None:
        await leadership.acquire()
        assert leadership.holds()
        with pytest.raises(LeadershipLost):
            await leadership.keep()
        assert not leadership.holds()

    lead(tmp_path, monkeypatch, in_turn(NONE, MINE, DOWN), work)


def test_a_renewal_whose_answer_was_lost_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(leadership: Leadership) -> None:
        await leadership.acquire()
        with pytest.raises(LeadershipLost, match="other has taken the lease"):
            await leadership.keep()

    # Lost only by the second conflict.
    verbs = lead(tmp_path, monkeypatch, in_turn(NONE, MINE, CONFLICT, MINE, MINE, CONFLICT, TAKEN), work)
    assert verbs == ["GET", "POST", "PUT", "GET", "PUT", "PUT", "GET"]


def test_a_lease_is_given_back_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(leadership: Leadership) -> None:
        await leadership.release()
        await leadership.acquire()
        for _ in range(2):
            await leadership.release()
            assert not leadership.holds()

    assert lead(tmp_path, monkeypatch, in_turn(NONE, MINE), work) == ["GET", "POST", "PUT"]


def test_who_does_not_lead_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(says(200, {}))

    async def work(_: KubernetesApi) -> None:
        async with KubernetesApi.connect(may_write=lambda: False) as api:
            await api.request("GET", "/p")
            for verb in ("POST", "PUT", "PATCH", "DELETE"):
                with pytest.raises(ApiError, match="another operator may lead"):
                    await api.request(verb, "/p")

    server.ask(tmp_path, monkeypatch, work)
    assert [request.method for request in server.requests] == ["GET"]
