"""A small HTTP server: GET of a few fixed paths, one request a connection."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

_REQUEST_SECONDS = 5.0
_REQUEST_LIMIT = 16384
_MAXIMUM_CONNECTIONS = 64
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"

    def encode(self) -> bytes:
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + self.body


Routes = Mapping[str, Callable[[], Response]]


async def serve(host: str | None, port: int, routes: Routes) -> asyncio.Server:
    """Listens at `host` (None: everywhere). Raises OSError when the port is taken."""
    handler = _Handler(routes)
    return await asyncio.start_server(handler.serve, host, port, limit=_REQUEST_LIMIT)


class _Handler:
    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            # Whoever holds connections open must not use up the agent's file descriptors.
            if self._open <= _MAXIMUM_CONNECTIONS:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._respond(request).encode())
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            with contextlib.suppress(OSError):
                writer.transport.abort()

    def _respond(self, request: bytes) -> Response:
        words = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3:
            return Response(b"bad request\n", HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if method != "GET":
            return Response(b"only GET is served\n", HTTPStatus.METHOD_NOT_ALLOWED)
        route = self._routes.get(target.partition("?")[0])
        if route is None:
            return Response(f"not found; there are {' '.join(self._routes)}\n".encode(), HTTPStatus.NOT_FOUND)
        try:
            return route()
        except Exception:
            _logger.exception("GET %s failed", target)
            return Response(b"internal error\n", HTTPStatus.INTERNAL_SERVER_ERROR)
