"""The agent's switchboard: between its ranks and the coordinator, with a record of every rank."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from ringtrain.agent import liveness, memory, termination
from ringtrain.agent.beats import BeatFilter
from ringtrain.agent.in_place import InPlace
from ringtrain.agent.liveness import Verdict
from ringtrain.agent.rank_process import RankProcess
from ringtrain.agent.record import RankRecord
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Done,
    Down,
    Enter,
    Failing,
    Finished,
    Hello,
    JobReported,
    Leave,
    Message,
    Ready,
    Refused,
    Report,
    Restarted,
    Start,
    Stop,
    Unstarted,
    Up,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, TerminationMessage

_UNSENT_REPORTS = 20
_EVERY_ROUND = (Phase.TRAINING, Phase.CHECKPOINTING)
"""Phases that are not worth a line of the log."""
_RESTARTS_TOLD = 5
"""To a new coordinator."""
_logger = logging.getLogger(__name__)


class Replica:
    """What the agent knows.

    `send` passes a message to the coordinator (False: there is none). `start` is to start the process of a rank, its
    first one or another (True), for a generation, and to call `watch` then. `check` does the same after a check of the
    machine, of which it calls `watch_check`. `end` is called when the replica has to end.
    """

    def __init__(
        self,
        environment: ReplicaEnvironment,
        send: Callable[[Message], bool],
        start: Callable[[int, Generation, bool], None],
        check: Callable[[int, Generation], None],
        end: Callable[[TerminationMessage], None],
    ) -> None:
        self.environment = environment
        self.report: JobReport | None = None
        """The newest of the coordinator."""
        self.finished = False
        self.stopping = False
        """Whether the ranks were asked to end."""
        self.generations_entered = 0
        self._all_here = False
        """Whether all replicas are connected, as far as this one knows."""
        self._send = send
        self._start = start
        self._check = check
        self._end = end
        self._known: Generation | None = None
        """The highest generation."""
        self._processes: dict[int, RankProcess] = {}
        """The latest of each rank that had one."""
        ranks = tuple(map(environment.rank, range(environment.procs_per_replica)))
        self._records = {rank: _before_start(environment, rank) for rank in ranks}
        self._beats = {rank: BeatFilter() for rank in ranks}
        self._unsent: deque[Report] = deque(maxlen=_UNSENT_REPORTS)
        self._restarts: deque[Restarted] = deque(maxlen=_RESTARTS_TOLD)
        self._oom_kills = memory.oom_kills()

    @property
    def known_generation(self) -> str | None:
        """The newest that it has heard of; None before any."""
        return str(self._known) if self._known is not None else None

    @property
    def records(self) -> list[RankRecord]:
        return list(self._records.values())

    def verdict(self) -> Verdict:
        return liveness.verdict(self.records, self.environment.timeouts, time.monotonic())

    def is_fit(self, rank: int) -> bool:
        """Whether the pre-flight check was passed in this pod."""
        return self._records[rank].fitness is not None

    def start_built_in(self) -> None:
        """Starts the ranks of the built-in trainer at once; commands wait for the coordinator's word."""
        if not self.environment.command:
            for rank in self._records:
                self._start(rank, Generation(self.environment.epoch, 0), False)

    async def watch(self, process: RankProcess) -> None:
        """Serves a rank until it has ended."""
        self.begun(process)
        exit_code = await process.run(self.heard)
        self.ended(process.rank, exit_code)

    async def watch_check(self, process: RankProcess) -> bool:
        """Serves the process that checks the machine before a command, as a rank without a session, until it has ended;
        whether the command may follow."""
        rank = process.rank
        self.begun(process)
        exit_code = await process.run(self.heard_of_check)
        record = self._records[rank]
        if exit_code == 0 and not record.is_leaving and not self.stopping:
            self._records[rank] = record.passed()
            return True
        # Even if it was passed: no command follows.
        self.ended(rank, exit_code or ExitCode.PREEMPTED)
        return False

    def heard_of_check(self, message: Up) -> None:
        """Nothing but what the user should know is the coordinator's business."""
        self._records[message.rank] = self._records[message.rank].checking(message, time.monotonic())
        if isinstance(message, Report):
            self._send(message)

    def begun(self, process: RankProcess) -> None:
        """A rank's process was started."""
        rank = process.rank
        self._processes[rank] = process
        self._records[rank] = self._records[rank].begun(process.child.pid, time.monotonic())
        if self.stopping or self._records[rank].is_leaving:
            process.child.kill()

    def heard(self, message: Up) -> None:
        """From a rank."""
        if self._records[message.rank].is_leaving:
            return
        now = time.monotonic()
        before = self._records[message.rank]
        record = self._records[message.rank] = before.sent(message, now)
        if record.phase is not before.phase and record.phase not in _EVERY_ROUND:
            _logger.info("rank %d: %s", message.rank, record.phase)
        beats = self._beats[message.rank]
        if isinstance(message, Beat):
            if not beats.passes(message, now):
                return
        elif (held := beats.flush()) is not None:
            # Its progress must be known before what follows from it.
            self._send(held)
        if not self._send(message) and isinstance(message, Report):
            self._unsent.append(message)

    def send_held_beats(self) -> None:
        """To be called once a second."""
        for beats in self._beats.values():
            beat = beats.release(time.monotonic())
            if beat is not None:
                self._send(beat)

    def opening(self) -> list[Message]:
        """What a coordinator is told first: it may be a new one that knows nothing."""
        self._beats = {rank: BeatFilter() for rank in self._beats}
        hello = Hello(
            job=self.environment.job,
            replica=self.environment.replica,
            epoch=self.environment.epoch,
            ranks=tuple(self._records),
            known_generation=self.known_generation,
        )
        unsent = list(self._unsent)
        self._unsent.clear()
        standing = (record.standing for record in self.records if not record.is_leaving)
        # Before what their ranks have said since.
        return [hello, *self._restarts, *(message for message in standing if message is not None), *unsent]

    def received(self, message: Down) -> None:
        """From the coordinator."""
        match message:
            case JobReported():
                self.report = message.report
                self._records = {rank: record.told(message) for rank, record in self._records.items()}
                self._all_here = not message.report.absent_replicas
                self._end_those_that_wait_in_vain()
                return
            case Refused():
                self._end(termination.of_code(ExitCode.STALE, f"refused by the coordinator: {message.reason}"))
                return
            case Start():
                self._start_waiting(message)
                return
            case Enter():
                self._know_of(message.generation)
                self.generations_entered += 1
            case Leave():
                _logger.info("leaving generation %s: %s", message.generation, message.reason)
                if message.blamed in self._records and self._records[message.blamed].failed:
                    self._end(self._why_ended(self._records[message.blamed]))
                    return
            case Finished():
                self.finished = True
        for rank in self._records:
            self._tell(rank, message)
        self._end_if_all_ended()

    def coordinator_lost(self, reason: str) -> None:
        """Every rank leaves its generation: nobody would tell it of further losses."""
        for rank, record in self._records.items():
            if record.generation is not None and not self.finished:
                self._tell(rank, Leave(generation=record.generation, reason=f"the coordinator is lost: {reason}"))
        self._all_here = False
        self._end_those_that_wait_in_vain()

    def stop(self, reason: str, seconds: float) -> None:
        """Asks every rank to end, and to save within so many seconds. Those that cannot hear it (yet), or have nothing
        to save yet, get a SIGTERM."""
        self.stopping = True
        for rank, record in self._records.items():
            self._tell(rank, Stop(reason=reason, seconds=seconds))
            if not record.running or (record.judged and record.phase is not Phase.STARTING):
                continue
            if record.generation is not None:
                # Peers without sessions fail with it: they must not take their failures for the cause.
                self._send(Broken(rank=rank, generation=record.generation, reason=reason))
            self._processes[rank].child.terminate()
        self._end_those_that_wait_in_vain()
        self._end_if_all_ended()

    def _end_those_that_wait_in_vain(self) -> None:
        """Of ranks that are to stop, those that wait for a generation in which to save what lies in memory, once
        somebody is lost: what takes its place takes too long."""
        if not self.stopping or (self._all_here and all(record.running for record in self.records)):
            return
        for rank, record in self._records.items():
            if record.running and isinstance(record.standing, Ready):
                self._processes[rank].child.terminate()

    def kill(self) -> None:
        """Ends every rank at once."""
        self.stopping = True
        for process in self._processes.values():
            process.child.kill()

    def _start_waiting(self, message: Start) -> None:
        self._know_of(message.generation)
        for rank, record in self._records.items():
            if record.waits_for_start and not self.stopping:
                self._records[rank] = record.told(message)
                generation = Generation.parse(message.generation)
                if message.everybody and self.environment.preflight is not None:
                    self._check(rank, generation)
                else:
                    self._start(rank, generation, False)

    def _know_of(self, generation: str) -> None:
        parsed = Generation.parse(generation)
        self._known = max(self._known or parsed, parsed)

    def _tell(self, rank: int, message: Down) -> None:
        before = self._records[rank]
        if isinstance(message, Leave) and self.stopping and not before.judged:
            # It has its time to end by itself.
            return
        record = self._records[rank] = before.told(message)
        if rank in self._processes:
            self._processes[rank].send(message)
            if record.is_leaving and record.running:
                self._processes[rank].child.kill()
        if record.waits_for_start and not before.waits_for_start and record.standing is not None:
            self._send(record.standing)

    def ended(self, rank: int, exit_code: int) -> None:
        """A rank's process has ended."""
        record = self._records[rank] = self._records[rank].ended(exit_code)
        if self._may_restart(record):
            self._restart(record)
            return
        news = record.standing
        if isinstance(news, Unstarted) or (exit_code == 0 and isinstance(news, Done)):
            self._send(news)
        elif self.finished and not self.environment.command:
            if exit_code != 0:
                _logger.warning("rank %d ended with exit code %d after the job was done", rank, exit_code)
        elif not self.stopping and not (self.finished and exit_code == 0):
            message = self._why_ended(record)
            # The coordinator has heard the last words of a session, and none of a check's.
            if record.failing is None or not record.judged:
                failing = Failing(rank=rank, exit_code=message.exit_code, message=message.message)
                self._send(record.failing or failing)
            # Without a session it may have failed because a peer did: the coordinator knows who was first.
            if record.judged:
                self._end(message)
        self._end_those_that_wait_in_vain()
        self._end_if_all_ended()

    def look(self, is_stopped: Callable[[int], bool]) -> None:
        """To be called once a second; `is_stopped` says of a process whether a signal has stopped it."""
        now = time.monotonic()
        for rank, record in self._records.items():
            if record.running and record.pid is not None:
                self._records[rank] = record.seen(is_stopped(record.pid), now)

    def silence(self) -> Verdict:
        """About the rank that is to be killed because it hangs: to be restarted in place, or as unfit."""
        judged = liveness.silence(self.records, self.environment.timeouts, time.monotonic())
        record = judged.hung
        if record is None or self.stopping:
            return Verdict()
        return judged if record.phase is Phase.CHECKING or record.in_place.may_follow(ExitCode.HANG) else Verdict()

    def kill_hung(self, rank: int, why: str) -> None:
        """`why` says what it was found to do."""
        self._records[rank] = replace(self._records[rank], hang=why)
        self._processes[rank].child.kill()

    def _may_restart(self, record: RankRecord) -> bool:
        if not record.judged or self.stopping or self.finished or record.is_leaving:
            return False
        return record.in_place.may_follow(self._why_ended(record).exit_code if record.failed else 0)

    def _restart(self, record: RankRecord) -> None:
        """In place: its pod, its memory and its peers stay."""
        why = self._why_ended(record)
        number = self._restarts[-1].number + 1 if self._restarts else 1
        message = Restarted(
            rank=record.rank,
            number=number,
            exit_code=why.exit_code,
            message=why.message,
            round=why.round,
            generation=self.known_generation,
        )
        self._restarts.append(message)
        _logger.warning("starting rank %d again: %s", record.rank, why.message)
        self._records[record.rank] = record.restarted(time.monotonic())
        self._beats[record.rank] = BeatFilter()
        self._send(message)
        generation = Generation.parse(record.generation) if record.generation else None
        self._start(record.rank, generation or Generation(self.environment.epoch, 0), True)

    def _why_ended(self, record: RankRecord) -> TerminationMessage:
        return termination.of_rank(record, memory.oom_kills() > self._oom_kills)

    def _end_if_all_ended(self) -> None:
        if any(record.running for record in self._records.values()):
            return
        if self.finished:
            self._end(termination.of_done(self.records, self.report))
        elif self.stopping:
            self._end(termination.of_stop(self.records, self.report))


def _before_start(environment: ReplicaEnvironment, rank: int) -> RankRecord:
    now = time.monotonic()
    in_place = InPlace(environment.in_place_restarts)
    if environment.command:
        return replace(RankRecord.of_command(rank, now), in_place=in_place)
    return RankRecord(rank=rank, judged=True, beat_at=now, in_place=in_place)
