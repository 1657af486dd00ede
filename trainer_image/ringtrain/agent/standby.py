"""The standby: a process that has imported all that a rank needs, so that a new rank is a fork of it."""

import asyncio
import itertools
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from ringtrain.contract.standby import GO, MAXIMUM_PACKET, VARIABLE, Forked, Order
from ringtrain.processes import Child, Children

_COMMAND = (sys.executable, "-m", "ringtrain.runtime.standby")
_RESTART_DELAY = 1.0
_ATTEMPTS = 5
"""To get a rank. A standby is lost now and then; one that is lost every time never comes to be."""
_logger = logging.getLogger(__name__)


class StandbyLost(Exception):
    """It ended as often as it was started."""


class Standby:
    """One for all ranks of the replica. It is started again when it ends."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._lock = asyncio.Lock()
        self._process: Child | None = None
        self._socket: socket.socket | None = None

    async def fork(
        self, environment: Mapping[str, str], descriptors: Mapping[str, Sequence[int]], output: int | None
    ) -> Child:
        """A new rank, once the standby is ready. It inherits the descriptors, which the variables name. It prints to
        the descriptor `output`; without one, where the agent does. Raises StandbyLost."""
        numbers = [number for group in descriptors.values() for number in group]
        places = itertools.count()
        named = {variable: tuple(next(places) for _ in group) for variable, group in descriptors.items()}
        printed = None
        if output is not None:
            printed = next(places)
            numbers.append(output)
        asked = Order(agent=os.getpid(), environment=dict(environment), descriptors=named, output=printed)
        order = asked.to_json().encode()
        async with self._lock:
            for _ in range(_ATTEMPTS):
                connection = self._connected()
                try:
                    return await self._ask(connection, order, numbers)
                except OSError as error:
                    _logger.warning("the standby process is lost (%s): starting another", error)
                    self.close()
                    await asyncio.sleep(_RESTART_DELAY)
        raise StandbyLost(
            f"the process that ranks are forked from ended {_ATTEMPTS} times before one was: the replica's log says why"
        )

    def look(self) -> None:
        """To be called once a second: a standby that a signal has stopped is killed."""
        if self._process is not None and self._process.kill_if_stopped():
            _logger.warning("the standby process was stopped by a signal and is killed")

    def close(self) -> None:
        """Ends the standby, not its forks."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
        self._process = self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setblocking(False)
            with theirs:
                self._process = self._children.start(
                    _COMMAND, {**os.environ, VARIABLE: str(theirs.fileno())}, pass_fds=[theirs.fileno()]
                )
            self._socket = ours
        return self._socket

    async def _ask(self, connection: socket.socket, order: bytes, descriptors: Sequence[int]) -> Child:
        """Raises OSError when the standby is gone."""
        socket.send_fds(connection, [order], descriptors)
        loop = asyncio.get_running_loop()
        answer = await loop.sock_recv(connection, MAXIMUM_PACKET)
        if not answer:
            raise ConnectionError("it has ended")
        child = self._children.adopt(Forked.model_validate_json(answer).pid)
        await loop.sock_sendall(connection, GO)
        return child
