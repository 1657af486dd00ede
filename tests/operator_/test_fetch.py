import asyncio

import pytest

from ringtrain_operator.fetch import get


async def fetch_from(answer: bytes | None) -> tuple[int, bytes]:
    """What `get` makes of a server that answers so, or not at all."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    closed = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        try:
            return await get("127.0.0.1", server.sockets[0].getsockname()[1], "/status", 0.5)
        finally:
            await closed.wait()


def test_status_and_body() -> None:
    body = b"x" * 200_000
    assert asyncio.run(fetch_from(b"HTTP/1.0 503 Unavailable\r\nA: b\r\n\r\n" + body)) == (503, body)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_what_is_not_http_is_an_error(answer: bytes) -> None:
    with pytest.raises(ConnectionError, match="gave no HTTP answer"):
        asyncio.run(fetch_from(answer))


def test_silence_ends_with_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(fetch_from(None))


def test_nobody_there() -> None:
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(get("127.251.1.1", 1, "/", 5))
