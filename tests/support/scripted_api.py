"""A server on loopback that answers API requests as a test tells it to, failures included."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import yaml
from aiohttp import web

from ringtrain_operator.cluster import api as api_module
from ringtrain_operator.cluster.api import KubernetesApi

T = TypeVar("T")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(status: int, body: object, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=json.dumps(body), headers=headers)

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Each once, the last for ever."""
    left = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def by_path(answers: Mapping[str, Answer]) -> Answer:
    """404 for all other paths."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answers.get(request.path, says(404, {"reason": "NotFound", "message": "not found"}))(request)

    return answer


def by_method(**answers: Answer) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await answers[request.method](request)

    return answer


class ScriptedApi:
    """`requests`, `bodies` and `attempts` tell what the client did."""

    def __init__(self, answer: Answer) -> None:
        self._script = answer
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.attempts: list[tuple[str, int]] = []
        self.kubeconfig = Path()

    def ask(self, folder: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[KubernetesApi], Awaitable[T]]) -> T:
        """Runs `work` with a client of this server."""
        monkeypatch.setattr(api_module, "LONGEST_BACKOFF", 0.01)

        async def run() -> T:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(application, shutdown_timeout=0.01)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                port = runner.addresses[0][1]
                self.kubeconfig = write_kubeconfig(folder / "kubeconfig", port, token="first")
                monkeypatch.setenv("KUBECONFIG", str(self.kubeconfig))
                async with KubernetesApi.connect(self._attempted) as api:
                    return await work(api)
            finally:
                await runner.cleanup()

        return asyncio.run(run())

    def _attempted(self, verb: str, status: int, _seconds: float) -> None:
        self.attempts.append((verb, status))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return await self._script(request)


def write_kubeconfig(path: Path, port: int, token: str) -> Path:
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path
