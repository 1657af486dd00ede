"""One rank's process and the socket to it."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping

from ringtrain.connection import Connection
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.messages import MAXIMUM_LINE, Down, Up
from ringtrain.processes import Child, Children

_BUILT_IN = (sys.executable, "-m", "ringtrain.runtime.rank")
_logger = logging.getLogger(__name__)


class RankProcess:
    """A running rank. What it says goes to `heard`."""

    def __init__(self, rank: int, child: Child, connection: Connection) -> None:
        self.rank = rank
        self.child = child
        self._connection = connection

    def send(self, message: Down) -> None:
        self._connection.send(message)

    async def run(self, heard: Callable[[Up], None]) -> int:
        """Passes on what the rank says until its process has ended; its exit code. Kills it when it sends garbage."""
        listening = asyncio.get_running_loop().create_task(self._listen(heard))
        try:
            exit_code = await self.child.wait()
            # The last words are in the socket still. A process that the rank left behind may hold it open.
            await asyncio.wait([listening], timeout=1.0)
            return exit_code
        finally:
            listening.cancel()
            self._connection.abort()

    async def _listen(self, heard: Callable[[Up], None]) -> None:
        try:
            while True:
                message = await self._connection.receive()
                if not isinstance(message, Up) or message.rank != self.rank:
                    raise ValueError(f"{message.type} is not for it to send")
                heard(message)
        except ConnectionError:
            pass
        except ValueError as error:
            _logger.error("rank %d speaks nonsense and is killed: %s", self.rank, error)
            self.child.kill()


async def start_rank(children: Children, environment: ReplicaEnvironment, local_rank: int) -> RankProcess:
    """Starts the built-in trainer or the user's command. Raises OSError when the command cannot be started."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            child = children.start(
                environment.command or _BUILT_IN,
                rank_environment(environment, local_rank, os.environ) | {"RINGTRAIN_RANK_FD": str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
            )
        except OSError:
            ours.close()
            raise
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAXIMUM_LINE)
    return RankProcess(environment.rank(local_rank), child, Connection(reader, writer))


def rank_environment(environment: ReplicaEnvironment, local_rank: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """The agent's own, and what torchrun would set."""
    return {
        **inherited,
        "RANK": str(environment.rank(local_rank)),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(environment.world_size),
        "LOCAL_WORLD_SIZE": str(environment.procs_per_replica),
        "GROUP_RANK": str(environment.replica),
        "MASTER_ADDR": environment.addresses.of(0),
        "MASTER_PORT": str(environment.addresses.master_port),
    }
