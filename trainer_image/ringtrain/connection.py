"""A stream of contract messages: one line of JSON each, bounded in size, time and backlog."""

import asyncio
import contextlib
import socket

from ringtrain.contract.messages import MAXIMUM_LINE, Message, decode, encode

MAXIMUM_BACKLOG = 8 * MAXIMUM_LINE
"""Bytes that may wait for a slow peer before its connection is cut."""
SILENCE_LIMIT = 5.0
"""Seconds without a message after which agent and coordinator take each other for gone; each sends one a second."""


class Connection:
    """One peer. Sending never waits; a peer that does not read is cut off."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, timeout: float | None = None) -> Message:
        """The next message. Raises ConnectionError when the peer has gone, TimeoutError after `timeout` seconds, and
        ValueError when it sends something else."""
        async with asyncio.timeout(timeout):
            # A line above the reader's limit is a ValueError too.
            line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the connection was closed")
        return decode(line)

    def send(self, message: Message) -> None:
        """Queues a message; dropped when the connection is closing."""
        if self._writer.is_closing():
            return
        self._writer.write(encode(message))
        if self._writer.transport.get_write_buffer_size() > MAXIMUM_BACKLOG:
            self.abort()

    async def close(self, timeout: float = 1.0) -> None:
        """Sends what is queued, for at most `timeout` seconds, and closes."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(timeout):
                await self._writer.wait_closed()
        self.abort()

    def abort(self) -> None:
        """Closes at once; what is queued is lost."""
        self._writer.transport.abort()


def notice_vanished_peers(writer: asyncio.StreamWriter) -> None:
    """Makes the kernel end a TCP connection whose peer's machine vanished, within `SILENCE_LIMIT`."""
    peer: socket.socket | None = writer.get_extra_info("socket")
    if peer is None:
        return
    limit = int(SILENCE_LIMIT)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limit - 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit * 1000)
