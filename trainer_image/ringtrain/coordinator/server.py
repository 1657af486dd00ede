"""The coordinator's edges: agents' connections, the store's process, commits on the volume, and the clock."""

import asyncio
import contextlib
import itertools
import logging
import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ringtrain.checkpoint import volume
from ringtrain.connection import SILENCE_LIMIT, Connection, notice_vanished_peers
from ringtrain.contract.addresses import COORDINATOR_PORT, STORE_PORT
from ringtrain.contract.environment import CheckpointSettings, ReplicaEnvironment
from ringtrain.contract.messages import MAXIMUM_LINE, Alive, Hello, JobReported, Up
from ringtrain.contract.report import CheckpointRecord
from ringtrain.coordinator import saves
from ringtrain.coordinator.job_report import job_report
from ringtrain.coordinator.listening import listened_at
from ringtrain.coordinator.membership import ProtocolError, step
from ringtrain.coordinator.notices import noticed
from ringtrain.coordinator.state import (
    Action,
    AgentConnected,
    AgentLost,
    Close,
    Commit,
    CommitEnded,
    Event,
    OwnGroup,
    Received,
    Save,
    Send,
    State,
)
from ringtrain.coordinator.store_process import StoreProcess
from ringtrain.processes import Children

_HELLO_SECONDS = 5.0
_REPORT_INTERVAL = 1.0
_FAREWELL_SECONDS = 30.0
_logger = logging.getLogger(__name__)


class Server:
    """One job's coordinator. Its decisions are `membership.step`'s."""

    def __init__(self, environment: ReplicaEnvironment, predecessor_ended: str) -> None:
        """`predecessor_ended` says how the coordinator before this one did; empty for the replica's first."""
        self._environment = environment
        self._connections: dict[int, Connection] = {}
        self._numbers = itertools.count()
        self._tasks = asyncio.TaskGroup()
        state = State(
            job=environment.job,
            replicas=environment.replicas,
            procs_per_replica=environment.procs_per_replica,
            coordinator_id=secrets.token_hex(8),
            pipeline=environment.parallelism.pipeline,
        )
        if predecessor_ended:
            message = f"the coordinator ended: {predecessor_ended}; a new one has taken its place"
            state = noticed(state, datetime.now(UTC), "CoordinatorLost", message)
        self._state = _resumed(state, environment.checkpoint)

    async def run(self) -> None:
        """Serves until the whole job is finished and every agent has heard of it."""
        addresses = self._environment.addresses
        host = addresses.of(0)
        bind = host if addresses.kind == "loopback" else ""
        store = StoreProcess(Children(), bind, host, STORE_PORT, self._happened)
        server = await asyncio.start_server(self._serve, bind or None, COORDINATOR_PORT, limit=MAXIMUM_LINE)
        # Whatever fails unexpectedly ends the process: its agent starts it again.
        async with server, self._tasks:
            keeper = self._tasks.create_task(store.run())
            while not self._state.finished:
                await asyncio.sleep(_REPORT_INTERVAL)
                store.look()
                self._look_for_own_group()
                self._report()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    while self._connections:
                        # Silence would look like the coordinator's death to an agent whose ranks end slowly.
                        self._report()
                        await asyncio.sleep(_REPORT_INTERVAL / 10)
            keeper.cancel()

    def _look_for_own_group(self) -> None:
        """Rank 0 is beside this process. Where it rendezvouses by itself, nobody else tells that training has begun."""
        started = self._state.started
        if started is None or self._state.own_group:
            return
        if listened_at(self._environment.addresses.master_port(started)):
            self._happened(OwnGroup(started))

    def _report(self) -> None:
        message = JobReported(report=job_report(self._state))
        for member in self._state.members.values():
            self._connections[member.connection].send(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        peer = writer.get_extra_info("peername")
        number = next(self._numbers)
        reason = "the connection was closed"
        try:
            notice_vanished_peers(writer)
            hello = await connection.receive(_HELLO_SECONDS)
            if not isinstance(hello, Hello):
                raise ProtocolError(f"expected hello, got {hello.type}")
            self._connections[number] = connection
            self._happened(AgentConnected(number, hello))
            await self._listen(number, connection)
        except TimeoutError:
            reason = f"nothing was heard of it for {SILENCE_LIMIT:g} s"
        except (OSError, ValueError) as error:
            reason = str(error)
            if not isinstance(error, ConnectionError):
                _logger.warning("%s: %s", peer, reason)
        finally:
            self._connections.pop(number, None)
            connection.abort()
            self._happened(AgentLost(number, reason))

    async def _listen(self, number: int, connection: Connection) -> None:
        while True:
            message = await connection.receive(SILENCE_LIMIT)
            if isinstance(message, Alive):
                continue
            if not isinstance(message, Up):
                raise ProtocolError(f"an agent must not send {message.type}")
            self._happened(Received(number, message))

    def _happened(self, event: Event) -> None:
        before = self._state
        self._state, actions = step(before, event, datetime.now(UTC))
        if (self._state.finished, self._state.last_checkpoint) != (before.finished, before.last_checkpoint):
            # The last report must be there before agents end, as they do soon after what they were to save is saved.
            self._report()
        if self._state.generation != before.generation:
            _logger.info("generation %s (was %s)", self._state.generation, before.generation)
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Send(connection=number, message=message):
                self._connections[number].send(message)
            case Close(connection=number):
                self._tasks.create_task(self._connections[number].close())
            case Commit(save=save):
                self._tasks.create_task(self._commit(save))

    async def _commit(self, save: Save) -> None:
        error = await asyncio.to_thread(_commit, self._environment, save)
        self._happened(CommitEnded(error))


def _commit(environment: ReplicaEnvironment, save: Save) -> str:
    """Commits and prunes; what went wrong, or nothing."""
    settings = environment.checkpoint
    if settings is None:
        return "this job has no checkpoint volume"
    unfit = saves.why_unfit(save, environment.mesh)
    if unfit:
        return unfit
    root = Path(settings.directory)
    try:
        volume.commit(root, save.generation, save.round, save.shards, environment.mesh, job=environment.job)
    except (OSError, volume.CommitRefused) as error:
        return str(error)
    try:
        problems = volume.prune(root, settings.keep, settings.keep_every)
    except OSError as error:
        problems = [str(error)]
    for problem in problems:
        _logger.warning("old checkpoints could not be deleted: %s", problem)
    return ""


def _resumed(state: State, settings: CheckpointSettings | None) -> State:
    """`state` with what the volume tells of earlier generations, of this job or of one whose volume it goes on with."""
    if settings is None:
        return state
    try:
        found = volume.candidates(Path(settings.directory))
        generations = volume.generations(Path(settings.directory))
    except OSError as error:
        _logger.warning("the checkpoint volume cannot be read: %s", error)
        return state
    # Commits of generations below these, damaged ones included, would be refused. What one of the same number has left
    # uncommitted would be in the way of its files.
    highest = max([state.highest, *generations])
    manifest = next((candidate.manifest for candidate in found if not candidate.problem), None)
    record = CheckpointRecord(round=manifest.round, time=manifest.created) if manifest is not None else None
    return replace(state, highest=highest, last_checkpoint=record)
