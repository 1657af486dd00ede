"""The operator's HTTP endpoints."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

Problems = Callable[[], Sequence[str]]


@asynccontextmanager
async def serve(port: int, routes: Sequence[web.RouteDef], host: str | None = None) -> AsyncIterator[int]:
    """Serves on `host` (None: on all addresses) until the block ends; gives the port, which is a free one for 0. Raises
    OSError when the port is taken."""
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def health_routes(live: Problems, ready: Problems) -> list[web.RouteDef]:
    """/healthz and /readyz: 200, or 503 with a line for each problem."""

    def answer(problems: Problems) -> Callable[[web.Request], web.Response]:
        def handler(_: web.Request) -> web.Response:
            found = problems()
            return web.Response(status=503 if found else 200, text="\n".join(found or ["ok"]) + "\n")

        return handler

    return [_get("/healthz", answer(live)), _get("/readyz", answer(ready))]


def metrics_routes(registry: CollectorRegistry) -> list[web.RouteDef]:
    """/metrics, for Prometheus."""
    return [
        _get(
            "/metrics",
            lambda _: web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}),
        )
    ]


def _get(path: str, handler: Callable[[web.Request], web.Response]) -> web.RouteDef:
    async def asynchronous(request: web.Request) -> web.Response:
        return handler(request)

    return web.get(path, asynchronous)
