"""The link against a small server that stands for the coordinator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ringtrain.agent import link as link_module
from ringtrain.agent.link import Link
from ringtrain.connection import Connection
from ringtrain.contract.messages import MAXIMUM_LINE, Alive, Done, Down, Finished, Hello, Message, Report

HELLO = Hello(job="job", replica=0, epoch=0, ranks=(0,))


class Coordinator:
    """Hands out the connections it gets."""

    def __init__(self) -> None:
        self.arrivals: asyncio.Queue[Connection] = asyncio.Queue()
        self._server: asyncio.Server | None = None

    async def open(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MAXIMUM_LINE)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.arrivals.put(Connection(reader, writer))


class Ends:
    """The link, and what it told."""

    def __init__(self, port: int) -> None:
        self.received: asyncio.Queue[Down] = asyncio.Queue()
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        self.link = Link(
            "127.0.0.1",
            port,
            "127.0.0.1",
            opening=lambda: [HELLO],
            received=self.received.put_nowait,
            lost=self.lost.put_nowait,
        )


@asynccontextmanager
async def running(ends: Ends) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(ends.link.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def play(scene: Callable[[Coordinator, Ends], Awaitable[None]]) -> None:
    async def run() -> None:
        coordinator = Coordinator()
        ends = Ends(await coordinator.open())
        try:
            async with asyncio.timeout(60):
                await scene(coordinator, ends)
        finally:
            await coordinator.close()

    asyncio.run(run())


async def heard(connection: Connection) -> Message:
    """The next message that is more than a sign of life."""
    while isinstance(message := await connection.receive(), Alive):
        pass
    return message


def test_it_opens_with_hello_stays_alive_and_passes_messages_both_ways() -> None:
    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        assert not ends.link.send(Done(rank=0, round=1))
        async with running(ends):
            connection = await coordinator.arrivals.get()
            assert [await connection.receive(), await connection.receive()] == [HELLO, Alive()]
            # The kernel connects with a coordinator that hangs, too.
            assert (ends.link.connected, ends.link.answered) == (True, False)
            connection.send(Finished())
            assert await ends.received.get() == Finished()
            assert (ends.link.connected, ends.link.answered) == (True, True)
            assert ends.link.send(Done(rank=0, round=2))
            assert await heard(connection) == Done(rank=0, round=2)
            connection.abort()

    play(scene)


def test_it_connects_again_and_tells_of_every_loss() -> None:
    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        async with running(ends):
            for _ in range(3):
                connection = await coordinator.arrivals.get()
                assert await connection.receive() == HELLO
                connection.abort()
                assert await ends.lost.get()

    play(scene)


def test_it_waits_for_a_coordinator_that_is_not_there_yet() -> None:
    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        other = Coordinator()
        port = await other.open()
        await other.close()
        waiting = Ends(port)
        async with running(waiting) as task:
            await asyncio.sleep(0.5)
            assert not task.done()
            await other.open(port)
            connection = await other.arrivals.get()
            assert await heard(connection) == HELLO
            connection.abort()
        await other.close()
        assert waiting.lost.empty() or await waiting.lost.get() != ""

    play(scene)


def test_a_silent_coordinator_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "SILENCE_LIMIT", 0.2)

    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        async with running(ends):
            first = await coordinator.arrivals.get()
            assert "nothing was heard" in await ends.lost.get()
            second = await coordinator.arrivals.get()
            first.abort()
            second.abort()

    play(scene)


def test_an_agents_message_from_the_coordinator_is_no_coordinator() -> None:
    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        async with running(ends):
            connection = await coordinator.arrivals.get()
            connection.send(HELLO)
            assert "hello" in await ends.lost.get()
            connection.abort()

    play(scene)


def test_last_words_get_out_when_it_ends() -> None:
    async def scene(coordinator: Coordinator, ends: Ends) -> None:
        async with running(ends):
            connection = await coordinator.arrivals.get()
            assert await connection.receive() == HELLO
            reports = [Report(rank=0, reason="Word", message=f"{number}" * 1000) for number in range(100)]
            for report in reports:
                ends.link.send(report)
        assert [await heard(connection) for _ in reports] == reports
        connection.abort()

    play(scene)
