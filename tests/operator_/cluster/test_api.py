"""The client against a server that fails as API servers and networks do."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web

from ringtrain_operator.cluster import api as api_module
from ringtrain_operator.cluster.api import ATTEMPTS, ApiError
from support.scripted_api import Answer, ScriptedApi, in_turn, says, write_kubeconfig

NOT_FOUND = {"kind": "Status", "reason": "NotFound", "message": "no such pod"}


async def drops(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


def test_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(says(201, {"ok": True}))
    body = {"kind": "Pod", "unknown": [1, None]}
    query = {"a": "b=c"}
    assert server.ask(tmp_path, monkeypatch, lambda api: api.request("POST", "/p", query=query, body=body)) == {
        "ok": True
    }
    (request,) = server.requests
    assert (request.method, request.path_qs) == ("POST", "/p?a=b%3Dc")
    assert request.headers["Authorization"] == "Bearer first"
    assert json.loads(server.bodies[0]) == body


@pytest.mark.parametrize("failure", [says(429, {}, **{"Retry-After": "1"}), says(503, {}), says(500, {}), drops])
def test_passing_failures_are_tried_again(failure: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(in_turn(failure, failure, says(200, {"ok": True})))
    assert server.ask(tmp_path, monkeypatch, lambda api: api.request("PUT", "/p", body={})) == {"ok": True}
    assert server.attempts[-1] == ("PUT", 200)
    assert ("PUT", 200) not in server.attempts[:-1]


def test_attempts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(says(503, {"reason": "ServiceUnavailable", "message": "starting"}))
    with pytest.raises(ApiError, match="starting") as raised:
        server.ask(tmp_path, monkeypatch, lambda api: api.request("GET", "/p"))
    assert (raised.value.status, raised.value.reason) == (503, "ServiceUnavailable")
    assert server.attempts == [("GET", 503)] * ATTEMPTS


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "REQUEST_SECONDS", 0.05)
    server = ScriptedApi(hangs)
    with pytest.raises(ApiError, match="TimeoutError") as raised:
        server.ask(tmp_path, monkeypatch, lambda api: api.request("GET", "/p"))
    assert raised.value.status == 0
    assert server.attempts == [("GET", 0)] * ATTEMPTS


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_refusals_are_not_tried_again(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ScriptedApi(says(status, {"reason": "Why", "message": "because"}))
    with pytest.raises(ApiError, match="because") as raised:
        server.ask(tmp_path, monkeypatch, lambda api: api.request("POST", "/p", body={}))
    assert (raised.value.status, raised.value.reason, raised.value.message) == (status, "Why", "because")
    assert len(server.requests) == 1
    assert server.attempts == [("POST", status)]


def test_an_answer_that_is_not_json_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def proxy_page(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="<html>Forbidden by proxy</html>")

    with pytest.raises(ApiError, match="Forbidden by proxy"):
        ScriptedApi(proxy_page).ask(tmp_path, monkeypatch, lambda api: api.request("GET", "/p"))


def test_get_of_what_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ScriptedApi(says(404, NOT_FOUND)).ask(tmp_path, monkeypatch, lambda api: api.get("/p")) is None


def test_a_path_that_is_not_served_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError, match="page not found"):
        ScriptedApi(says(404, "404 page not found")).ask(tmp_path, monkeypatch, lambda api: api.get("/p"))


def test_lists_are_read_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_page = says(200, {"metadata": {"continue": "t"}, "items": [{"n": 1}, {"n": 2}]})
    server = ScriptedApi(in_turn(first_page, says(200, {"metadata": {}, "items": [{"n": 3}]})))
    assert server.ask(tmp_path, monkeypatch, lambda api: api.list("/p", "a=b")) == [{"n": n} for n in (1, 2, 3)]
    first, second = (request.query for request in server.requests)
    assert first["labelSelector"] == second["labelSelector"] == "a=b"
    assert "continue" not in first
    assert second["continue"] == "t"


def test_expired_credentials_are_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def expire(request: web.Request) -> web.StreamResponse:
        assert request.url.port is not None
        write_kubeconfig(server.kubeconfig, request.url.port, token="second")
        return web.Response(status=401)

    server = ScriptedApi(in_turn(expire, says(200, {})))
    server.ask(tmp_path, monkeypatch, lambda api: api.request("GET", "/p"))
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer first", "Bearer second"]
