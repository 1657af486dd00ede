import asyncio
import socket

from prometheus_client import CollectorRegistry, Counter

from ringtrain_operator.fetch import get
from ringtrain_operator.server import health_routes, metrics_routes, serve


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_endpoints() -> None:
    problems: list[str] = []
    registry = CollectorRegistry()
    Counter("things_total", "Things.", registry=registry).inc(2)
    port = free_port()
    routes = [*health_routes(live=lambda: problems, ready=lambda: ["not yet"]), *metrics_routes(registry)]

    async def ask() -> None:
        async with serve(port, routes):
            assert await get("127.0.0.1", port, "/healthz", 10) == (200, b"ok\n")
            assert await get("127.0.0.1", port, "/readyz", 10) == (503, b"not yet\n")
            problems.append("the watch of pods delivered nothing")
            assert await get("127.0.0.1", port, "/healthz", 10) == (503, b"the watch of pods delivered nothing\n")
            status, body = await get("127.0.0.1", port, "/metrics", 10)
            assert status == 200
            assert b"things_total 2.0" in body

    asyncio.run(ask())
