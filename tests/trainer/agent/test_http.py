import asyncio
import contextlib
import socket
from http import HTTPStatus

import pytest

from ringtrain.agent import http

HOST = "127.0.0.1"


def broken() -> http.Response:
    raise RuntimeError("a bug")


ROUTES = {
    "/livez": lambda: http.Response(b"ok\n"),
    "/readyz": lambda: http.Response(b"rank 1 is waiting\n", HTTPStatus.SERVICE_UNAVAILABLE),
    "/broken": broken,
}


def ask(*requests: bytes) -> list[bytes]:
    """The answers to raw requests, each on a connection of its own."""

    async def run() -> list[bytes]:
        async with await http.serve(HOST, 0, ROUTES) as server:
            port = server.sockets[0].getsockname()[1]
            return [await _answer(port, request) for request in requests]

    return asyncio.run(run())


async def _answer(port: int, request: bytes) -> bytes:
    """Empty when the server closes the connection without one."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        async with asyncio.timeout(60):
            writer.write(request)
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_a_route_answers() -> None:
    (answer,) = ask(get("/livez"))
    assert answer == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
        b"Connection: close\r\n\r\nok\n"
    )


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        (get("/livez?verbose"), 200, b"ok"),
        (get("/readyz"), 503, b"rank 1 is waiting"),
        (get("/nothing"), 404, b"/livez"),
        (get("/broken"), 500, b"internal error"),
        *(
            (f"{verb} /livez HTTP/1.1\r\n\r\n".encode(), 405, b"only GET")
            for verb in ("POST", "PUT", "PATCH", "DELETE", "CONNECT")
        ),
        (b"nonsense\r\n\r\n", 400, b"bad request"),
        (b"\xff\xfe \x00\r\n\r\n", 400, b"bad request"),
    ],
)
def test_answers(request_: bytes, status: int, said: bytes) -> None:
    (answer,) = ask(request_)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert said in answer


def test_a_request_without_end_gets_no_answer_and_the_server_lives_on() -> None:
    endless, after = ask(b"GET /livez HTTP/1.1\r\nX: " + 100_000 * b"x", get("/livez"))
    assert endless == b""
    assert after.endswith(b"ok\n")


def test_connections_held_open_do_not_use_up_the_server() -> None:
    async def run() -> bytes:
        async with await http.serve(HOST, 0, ROUTES) as server:
            port = server.sockets[0].getsockname()[1]
            held = [socket.create_connection((HOST, port)) for _ in range(100)]
            try:
                # The oldest keep their places for a few seconds; the others are closed at once.
                async with asyncio.timeout(60):
                    while not (answer := await _answer(port, get("/livez"))):
                        await asyncio.sleep(0.2)
            finally:
                for connection in held:
                    connection.close()
            return answer

    assert asyncio.run(run()).endswith(b"ok\n")
