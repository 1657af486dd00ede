"""The coordinator's process beside the agent of replica 0."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable

from ringtrain.processes import Child, Children

_COMMAND: tuple[str, ...] = (sys.executable, "-m", "ringtrain.coordinator")
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0
_HEALTHY_SECONDS = 30.0
_SILENCE_LIMIT = 60.0
"""Far longer than it takes to start, and than it keeps connections on which nothing is heard."""
_logger = logging.getLogger(__name__)


class CoordinatorProcess:
    """Started again whenever it fails or hangs. It ends by itself, with exit code 0, once the whole job is finished."""

    def __init__(self, children: Children, clock: Callable[[], float] = time.monotonic) -> None:
        self._children = children
        self._clock = clock
        self._child: Child | None = None
        self._heard_at = 0.0
        """By the clock; at first when it was started."""

    def look(self, answers: bool) -> None:
        """To be called once a second, with whether it answers the agent beside it: when it has not for long, it answers
        nobody, and is killed. So is one that a signal has stopped, at once."""
        if self._child is not None and self._child.kill_if_stopped():
            _logger.warning("the coordinator was stopped by a signal and is killed")
        elif answers:
            self._heard_at = self._clock()
        elif self._child is not None and self._clock() - self._heard_at > _SILENCE_LIMIT:
            _logger.warning("the coordinator has not answered for %g s and is killed", _SILENCE_LIMIT)
            self._child.kill()

    async def run(self) -> None:
        """Until it has ended by itself; it is killed when this is cancelled."""
        loop, delay = asyncio.get_running_loop(), _FIRST_DELAY
        command = _COMMAND
        while True:
            started = loop.time()
            self._heard_at = self._clock()
            child = self._child = self._children.start(command, os.environ)
            try:
                exit_code = await child.wait()
            finally:
                self._child = None
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
