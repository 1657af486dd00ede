"""Keeps the generations' store running."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable

from ringtrain.coordinator.state import StoreDown, StoreUp
from ringtrain.processes import Child, Children

_RESTART_DELAY = 1.0
_logger = logging.getLogger(__name__)


class StoreProcess:
    """The store's process at `port`, started again whenever it ends. `tell` hears when it is up and down."""

    def __init__(
        self, children: Children, bind: str, host: str, port: int, tell: Callable[[StoreUp | StoreDown], None]
    ) -> None:
        self._children = children
        self._bind = bind
        self._host = host
        self._port = port
        self._tell = tell
        self._child: Child | None = None

    def look(self) -> None:
        """To be called once a second: a store that a signal has stopped is killed. Only the next generation would
        miss it, and would never form."""
        if self._child is not None and self._child.kill_if_stopped():
            _logger.warning("the store was stopped by a signal and is killed")

    async def run(self) -> None:
        """For ever; the store ends when this is cancelled."""
        while True:
            exit_code = await self._run_once()
            _logger.warning("the store ended with exit code %d", exit_code)
            self._tell(StoreDown(f"exit code {exit_code}"))
            await asyncio.sleep(_RESTART_DELAY)

    async def _run_once(self) -> int:
        command = [sys.executable, "-m", "ringtrain.runtime.store", f"--host={self._bind}", f"--port={self._port}"]
        child = self._child = self._children.start(command, os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = child.process
        assert process is not None and process.stdout is not None and process.stdin is not None  # noqa: PT018
        try:
            reader = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), process.stdout
            )
            try:
                if await reader.readline():
                    self._tell(StoreUp(self._host, self._port))
                return await child.wait()
            finally:
                transport.close()
        finally:
            process.stdin.close()
            child.kill()
