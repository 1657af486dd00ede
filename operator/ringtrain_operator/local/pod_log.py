"""A pod's log: what its processes print, copied from a pipe to a file."""

import asyncio
from collections.abc import Callable
from pathlib import Path

_CHUNK = 1 << 16


async def keep(pipe: int, log: Path, lost: Callable[[OSError], None]) -> None:
    """Appends what comes out of `pipe` to `log` until its end, and closes the pipe. Owns the descriptor `pipe`.

    What cannot be written is lost, of which `lost` hears: the processes must not fail, or wait, for a full disk.
    """
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader),
        open(pipe, "rb", buffering=0),  # noqa: SIM115
    )
    try:
        while chunk := await reader.read(_CHUNK):
            try:
                with log.open("ab") as file:
                    file.write(chunk)
            except OSError as error:
                lost(error)
    finally:
        transport.close()
