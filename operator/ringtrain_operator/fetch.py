"""A small HTTP GET for the agents' endpoints on loopback."""

import asyncio
import contextlib

MAXIMUM_BODY = 4 << 20
"""Bytes read at most: far more than any /status."""


async def get(host: str, port: int, path: str, seconds: float) -> tuple[int, bytes]:
    """(HTTP status, body) of `http://host:port/path`.

    Raises OSError when there is no answer, TimeoutError (an OSError) when it takes longer than `seconds`, and
    ConnectionError (an OSError) when the answer is not HTTP.
    """
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            # HTTP/1.0: the answer is never chunked and ends with the connection.
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            answer = await _read_all(reader)
        finally:
            # The answer is read: nothing that is still buffered matters.
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    head, separator, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not separator or len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ConnectionError(f"http://{host}:{port}{path} gave no HTTP answer")
    return int(words[1]), body


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < MAXIMUM_BODY and (part := await reader.read(1 << 16)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
