"""One rank's process and the socket to it."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ringtrain.agent.output import Output
from ringtrain.agent.rank_memory import RankMemory
from ringtrain.agent.standby import Standby
from ringtrain.connection import Connection
from ringtrain.contract.environment import PREFIX, ReplicaEnvironment
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import MAXIMUM_LINE, Down, Up
from ringtrain.processes import Child, Children

_logger = logging.getLogger(__name__)


class RankProcess:
    """A running rank. What it says goes to `heard`."""

    def __init__(self, rank: int, child: Child, connection: Connection, output: Output | None) -> None:
        self.rank = rank
        self.child = child
        self._connection = connection
        self._output = output

    def send(self, message: Down) -> None:
        self._connection.send(message)

    async def run(self, heard: Callable[[Up], None]) -> int:
        """Passes on what the rank says until its process has ended; its exit code. Kills it when it sends garbage."""
        listening = asyncio.get_running_loop().create_task(self._listen(heard))
        try:
            exit_code = await self.child.wait()
            # The last words are in socket and pipe still. A process that the rank left behind may hold them open.
            last_words = [listening] if self._output is None else [listening, self._output.ended]
            await asyncio.wait(last_words, timeout=1.0)
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


async def start_rank(
    children: Children,
    standby: Standby | None,
    environment: ReplicaEnvironment,
    local_rank: int,
    generation: Generation,
    lent: RankMemory,
) -> RankProcess:
    """Starts the built-in trainer, as a fork of the standby, or the user's command; `generation` is the first that it
    can be in. Raises OSError when the command cannot be started, StandbyLost when the standby cannot."""
    command = environment.command if standby is None else ()
    return await _started(children, standby, command, environment, local_rank, generation, lent)


async def start_check(
    children: Children, environment: ReplicaEnvironment, local_rank: int, generation: Generation, lent: RankMemory
) -> RankProcess:
    """Starts the check of the machine that goes before a user's command, of all ranks of `generation`."""
    command = (sys.executable, "-m", "ringtrain.preflight", str(generation))
    return await _started(children, None, command, environment, local_rank, generation, lent)


async def _started(
    children: Children,
    standby: Standby | None,
    command: Sequence[str],
    environment: ReplicaEnvironment,
    local_rank: int,
    generation: Generation,
    lent: RankMemory,
) -> RankProcess:
    """`command`, or without one a fork of the standby."""
    rank = environment.rank(local_rank)
    variables = rank_environment(environment, local_rank, generation)
    # An only rank has the agent's own: there is nobody to tell it from.
    output = Output(rank) if environment.procs_per_replica > 1 else None
    with output or nullcontext():
        printed = output.descriptor if output is not None else None
        ours, theirs = socket.socketpair()
        descriptors = {"RINGTRAIN_RANK_FD": [theirs.fileno()], **lent.descriptors}
        with theirs:
            try:
                if standby is not None:
                    child = await standby.fork(variables, descriptors, printed)
                else:
                    variables |= {name: ",".join(map(str, numbers)) for name, numbers in descriptors.items()}
                    inherited = [number for numbers in descriptors.values() for number in numbers]
                    child = children.start(
                        command, {**os.environ, **variables}, pass_fds=inherited, stdout=printed, stderr=printed
                    )
            except BaseException:
                ours.close()
                raise
    reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAXIMUM_LINE)
    return RankProcess(rank, child, Connection(reader, writer), output)


def rank_environment(environment: ReplicaEnvironment, local_rank: int, generation: Generation) -> dict[str, str]:
    """Beside the agent's own: what torchrun would set for one group of `procsPerReplica` workers on each replica."""
    rank, world_size = str(environment.rank(local_rank)), str(environment.world_size)
    replica, replicas = str(environment.replica), str(environment.replicas)
    directory = {}
    if environment.checkpoint is not None:
        # For programs that read no JSON.
        directory = {PREFIX + "CHECKPOINT_DIRECTORY": environment.checkpoint.directory}
    return {
        **directory,
        # Those of the agent's own environment may have been injected before.
        PREFIX + "FAULTS": ";".join(map(str, environment.faults)),
        **({PREFIX + "CHECKED": "1"} if environment.checked else {}),
        "RANK": rank,
        "ROLE_RANK": rank,
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": world_size,
        "ROLE_WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": str(environment.procs_per_replica),
        "GROUP_RANK": replica,
        "NODE_RANK": replica,
        "GROUP_WORLD_SIZE": replicas,
        "ROLE_NAME": "default",
        "MASTER_ADDR": environment.addresses.of(0),
        "MASTER_PORT": str(environment.addresses.master_port(generation)),
        "TORCHELASTIC_RUN_ID": environment.job,
        # 0 in the first generation only: whoever reads it wants to know that.
        "TORCHELASTIC_RESTART_COUNT": str(generation.epoch + generation.attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(environment.max_restarts),
        # Rank 0 has the store; an agent's own would be the alternative.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
