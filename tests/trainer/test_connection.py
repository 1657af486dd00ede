import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ringtrain.connection import MAXIMUM_BACKLOG, Connection, notice_vanished_peers
from ringtrain.contract.messages import MAXIMUM_LINE, Alive, Done, Report, encode


def meet(body: Callable[[Connection, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    """Runs `body` with a connection and the bare streams of its peer."""

    async def run() -> None:
        arrived: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            notice_vanished_peers(writer)
            arrived.set_result(Connection(reader, writer))

        async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=MAXIMUM_LINE) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
            connection = await arrived
            try:
                async with asyncio.timeout(60):
                    await body(connection, reader, writer)
            finally:
                connection.abort()
                writer.close()

    asyncio.run(run())


def test_messages_pass_both_ways() -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection.send(Done(rank=1, round=2))
        assert await reader.readline() == encode(Done(rank=1, round=2))
        writer.write(encode(Alive()) + encode(Done(rank=3, round=4)))
        assert await connection.receive() == Alive()
        assert await connection.receive() == Done(rank=3, round=4)

    meet(body)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\n", b"\n", b"\xff\n", (MAXIMUM_LINE + 10) * b"x" + b"\n"])
def test_garbage_and_endless_lines_are_value_errors(garbage: bytes) -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)
        with pytest.raises(ValueError, match=r"."):
            await connection.receive()

    meet(body)


@pytest.mark.parametrize("last", [b"", b'{"type":"alive"}'])
def test_a_peer_that_has_gone_is_a_connection_error(last: bytes) -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(last)
        writer.close()
        with pytest.raises(ConnectionError):
            await connection.receive()

    meet(body)


def test_silence_is_a_time_out() -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with pytest.raises(TimeoutError):
            await connection.receive(0.05)

    meet(body)


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        big = Report(rank=0, reason="Big", message="x" * (MAXIMUM_LINE // 2))
        for _ in range(4 * MAXIMUM_BACKLOG // MAXIMUM_LINE):
            connection.send(big)
        with pytest.raises(ConnectionError):
            await connection.receive()

    meet(body)


def test_closing_sends_what_is_queued() -> None:
    async def body(connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for round in range(1000):
            connection.send(Done(rank=1, round=round))
        closing = asyncio.create_task(connection.close(60))
        heard = (await reader.read(-1)).splitlines(keepends=True)
        await closing
        assert heard == [encode(Done(rank=1, round=round)) for round in range(1000)]
        connection.send(Alive())

    meet(body)
