"""The life of a replica's agent: from the start of its ranks to its exit code."""

import asyncio
import logging
import signal
import time
from dataclasses import replace
from http import HTTPStatus

from ringtrain.agent import hang, http, metrics, termination
from ringtrain.agent.coordinator_process import CoordinatorProcess
from ringtrain.agent.link import Link
from ringtrain.agent.metrics import Metrics, Sample
from ringtrain.agent.rank_memory import RankMemory
from ringtrain.agent.rank_process import start_check, start_rank
from ringtrain.agent.replica import Replica
from ringtrain.agent.standby import Standby, StandbyLost
from ringtrain.agent.status import status, unready_reason
from ringtrain.contract.addresses import AGENT_PORT, COORDINATOR_PORT
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.report import AgentStatus, TerminationMessage
from ringtrain.processes import Children, is_stopped

_TICK = 1.0
_STOP_MARGIN = 2.0
_SAVING_SHARE = 0.9
"""Of the time until ranks are killed: the rest is for their own end."""
_COORDINATOR_FAREWELL = 40.0
_logger = logging.getLogger(__name__)


class Agent:
    """One replica. Create it inside a running event loop, in the main thread."""

    def __init__(self, environment: ReplicaEnvironment) -> None:
        self._environment = environment
        self._ended: asyncio.Future[TerminationMessage] = asyncio.get_running_loop().create_future()
        addresses = environment.addresses
        self._own_host = addresses.of(environment.replica) if addresses.kind == "loopback" else None
        self._children = Children()
        self._tasks = asyncio.TaskGroup()
        self._starting: dict[int, asyncio.Task[None]] = {}
        """Ranks whose processes are still to begin."""
        self._replica = Replica(
            environment,
            send=lambda message: self._link.send(message),
            start=self._start_rank,
            check=self._check_rank,
            end=self._end,
        )
        self._link = Link(
            addresses.of(0),
            COORDINATOR_PORT,
            self._own_host,
            opening=self._replica.opening,
            received=self._replica.received,
            lost=self._replica.coordinator_lost,
        )
        self._metrics = Metrics(self._sample)
        self._standby = None if environment.command else Standby(self._children)
        self._coordinator = CoordinatorProcess(self._children) if environment.replica == 0 else None
        self._memory = {rank: RankMemory(rank) for rank in map(environment.rank, range(environment.procs_per_replica))}

    async def run(self) -> int:
        """The replica's exit code, once all its processes have ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop, number)
        async with await http.serve(self._own_host, AGENT_PORT, self._routes()), self._tasks as tasks:
            background = [tasks.create_task(self._tick())]
            coordinator = None
            if self._coordinator is not None:
                coordinator = tasks.create_task(self._coordinator.run())
                background.append(coordinator)
            self._replica.start_built_in()
            link = tasks.create_task(self._link.run())
            message = await self._ended
            _logger.info("ending with exit code %d (%s): %s", message.exit_code, message.reason, message.message)
            termination.write(self._environment.termination_log, message)
            self._replica.kill()
            for starting in self._starting.values():
                starting.cancel()
            if self._standby is not None:
                self._standby.close()
            # Its last words are still sent.
            link.cancel()
            if coordinator is not None and message.exit_code == ExitCode.DONE:
                await asyncio.wait([link])
                await asyncio.wait([coordinator], timeout=_COORDINATOR_FAREWELL)
            for task in background:
                task.cancel()
        return message.exit_code

    def _start_rank(self, rank: int, generation: Generation, again: bool) -> None:
        self._starting[rank] = self._tasks.create_task(self._run_rank(rank, generation, again))

    def _check_rank(self, rank: int, generation: Generation) -> None:
        self._starting[rank] = self._tasks.create_task(self._run_checked(rank, generation))

    async def _run_checked(self, rank: int, generation: Generation) -> None:
        """A command, after a check of its machine."""
        environment = self._environment
        try:
            process = await start_check(
                self._children, environment, rank - environment.rank(0), generation, self._memory[rank]
            )
        finally:
            self._starting.pop(rank, None)
        if await self._replica.watch_check(process):
            await self._run_rank(rank, generation, again=False)

    async def _run_rank(self, rank: int, generation: Generation, again: bool) -> None:
        """From its start to its end."""
        environment = replace(self._environment, checked=self._replica.is_fit(rank))
        if again:
            # Faults are injected once.
            later = tuple(fault for fault in environment.faults if fault.epoch > generation.epoch)
            environment = replace(environment, faults=later)
        try:
            local_rank = rank - environment.rank(0)
            process = await start_rank(
                self._children, self._standby, environment, local_rank, generation, self._memory[rank]
            )
        except OSError as error:
            command = environment.command
            reason = f"the command {command[0]!r} cannot be started: {error.strerror}" if command else str(error)
            self._end(termination.of_code(ExitCode.BAD_CONFIGURATION, reason))
            return
        except StandbyLost as error:
            self._end(termination.of_code(1, str(error)))
            return
        finally:
            self._starting.pop(rank, None)
        await self._replica.watch(process)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._replica.send_held_beats()
            if self._coordinator is not None:
                self._coordinator.look(self._link.answered)
            if self._standby is not None:
                self._standby.look()
            self._replica.look(is_stopped)
            silence = self._replica.silence()
            if silence.hung is not None and silence.hung.pid is not None:
                await self._end_hung(silence.hung.rank, silence.hung.pid, silence.reason)

    async def _end_hung(self, rank: int, pid: int, reason: str) -> None:
        found = await hang.look(pid, self._memory[rank])
        still = self._replica.silence().hung
        if still is not None and still.pid == pid:
            self._replica.kill_hung(rank, f"{reason.removeprefix(f'rank {rank} ')}: {found}")

    def _end(self, message: TerminationMessage) -> None:
        """The first reason to end is the one that counts."""
        if not self._ended.done():
            self._ended.set_result(message.model_copy(update={"generation": self._replica.known_generation}))

    def _asked_to_stop(self, number: signal.Signals) -> None:
        if self._replica.stopping or self._ended.done():
            return
        verdict = self._replica.verdict()
        if not verdict.live:
            self._end(termination.of_hang(verdict))
            return
        grace = self._environment.grace_seconds
        seconds = max(grace - _STOP_MARGIN, grace / 2)
        asyncio.get_running_loop().call_later(seconds, self._replica.kill)
        self._replica.stop(f"the replica received {number.name}", seconds * _SAVING_SHARE)

    def _routes(self) -> http.Routes:
        return {"/livez": self._livez, "/readyz": self._readyz, "/status": self._status_page, "/metrics": self._scrape}

    def _status(self) -> AgentStatus:
        return status(self._environment, self._replica.records, self._replica.report, time.monotonic())

    def _sample(self) -> Sample:
        return Sample(
            self._environment.namespace, self._status(), self._replica.generations_entered, self._link.connected
        )

    def _livez(self) -> http.Response:
        return _probe(self._replica.verdict().reason)

    def _readyz(self) -> http.Response:
        unconnected = "" if self._link.connected else "the coordinator is not connected"
        return _probe(self._replica.verdict().reason or unconnected or unready_reason(self._replica.records))

    def _status_page(self) -> http.Response:
        return http.Response(self._status().to_json().encode(), content_type="application/json")

    def _scrape(self) -> http.Response:
        return http.Response(self._metrics.text(), content_type=metrics.CONTENT_TYPE)


def _probe(problem: str) -> http.Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return http.Response(f"{problem or 'ok'}\n".encode(), status)
