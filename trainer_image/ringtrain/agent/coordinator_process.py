"""The coordinator's process beside the agent of replica 0."""

import asyncio
import logging
import os
import sys

from ringtrain.processes import Children

_COMMAND: tuple[str, ...] = (sys.executable, "-m", "ringtrain.coordinator")
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0
_HEALTHY_SECONDS = 30.0
_logger = logging.getLogger(__name__)


class CoordinatorProcess:
    """Started again whenever it fails. It ends by itself, with exit code 0, once the whole job is finished."""

    def __init__(self, children: Children) -> None:
        self._children = children

    async def run(self) -> None:
        """Until it has ended by itself; it is killed when this is cancelled."""
        loop, delay = asyncio.get_running_loop(), _FIRST_DELAY
        command = _COMMAND
        while True:
            started = loop.time()
            child = self._children.start(command, os.environ)
            try:
                exit_code = await child.wait()
            finally:
                child.kill()
            if exit_code == 0:
                return
            if loop.time() - started > _HEALTHY_SECONDS:
                delay = _FIRST_DELAY
            _logger.warning("the coordinator ended with exit code %d: starting it again in %g s", exit_code, delay)
            # It tells the user of its predecessor's death, which nobody else could.
            command = (*_COMMAND, f"--predecessor-ended=exit code {exit_code}")
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
