"""The agent's switchboard: between its ranks and the coordinator, with a record of every rank."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from ringtrain.agent import liveness, memory, termination
from ringtrain.agent.beats import BeatFilter
from ringtrain.agent.liveness import Verdict
from ringtrain.agent.rank_process import RankProcess
from ringtrain.agent.record import RankRecord
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Done,
    Down,
    Enter,
    Failing,
    Finished,
    Hello,
    JobReported,
    Leave,
    Message,
    Refused,
    Report,
    Stop,
    Up,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, TerminationMessage

_UNSENT_REPORTS = 20
_logger = logging.getLogger(__name__)


class Replica:
    """What the agent knows. `send` passes a message to the coordinator (False: there is none), `end` is called when
    the replica has to end."""

    def __init__(
        self,
        environment: ReplicaEnvironment,
        send: Callable[[Message], bool],
        end: Callable[[TerminationMessage], None],
    ) -> None:
        self.environment = environment
        self.report: JobReport | None = None
        """The newest of the coordinator."""
        self.finished = False
        self.stopping = False
        """Whether the ranks were asked to end."""
        self.generations_entered = 0
        self._send = send
        self._end = end
        self._known_epoch = environment.epoch
        self._processes: dict[int, RankProcess] = {}
        self._records: dict[int, RankRecord] = {}
        self._beats: dict[int, BeatFilter] = {}
        self._unsent: deque[Report] = deque(maxlen=_UNSENT_REPORTS)
        self._oom_kills = memory.oom_kills()

    @property
    def records(self) -> list[RankRecord]:
        return list(self._records.values())

    def verdict(self) -> Verdict:
        return liveness.verdict(self.records, self.environment.timeouts, time.monotonic())

    async def watch(self, process: RankProcess) -> None:
        """Serves a rank until it has ended."""
        rank = process.rank
        self._processes[rank] = process
        self._beats[rank] = BeatFilter()
        self._records[rank] = RankRecord(
            rank=rank, pid=process.child.pid, judged=not self.environment.command, beat_at=time.monotonic()
        )
        exit_code = await process.run(self.heard)
        self._rank_ended(rank, exit_code)

    def heard(self, message: Up) -> None:
        """From a rank."""
        now = time.monotonic()
        self._records[message.rank] = self._records[message.rank].sent(message, now)
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
            ranks=tuple(map(self.environment.rank, range(self.environment.procs_per_replica))),
            known_epoch=self._known_epoch,
        )
        unsent = list(self._unsent)
        self._unsent.clear()
        return [hello, *(record.standing for record in self.records if record.standing is not None), *unsent]

    def received(self, message: Down) -> None:
        """From the coordinator."""
        match message:
            case JobReported():
                self.report = message.report
                return
            case Refused():
                self._end(termination.of_code(ExitCode.STALE, f"refused by the coordinator: {message.reason}"))
                return
            case Enter():
                self._known_epoch = max(self._known_epoch, Generation.parse(message.generation).epoch)
                self.generations_entered += 1
            case Leave():
                _logger.info("leaving generation %s: %s", message.generation, message.reason)
            case Finished():
                self.finished = True
        self._tell(self._processes, message)
        self._end_if_all_ended()

    def coordinator_lost(self, reason: str) -> None:
        """Every rank leaves its generation: nobody would tell it of further losses."""
        for rank, record in self._records.items():
            if record.generation is not None:
                self._tell([rank], Leave(generation=record.generation, reason=f"the coordinator is lost: {reason}"))

    def stop(self, reason: str) -> None:
        """Asks every rank to end. Those that cannot hear it yet, or have nothing to save yet, get a SIGTERM."""
        self.stopping = True
        self._tell(self._processes, Stop(reason=reason))
        for rank, record in self._records.items():
            if record.phase is Phase.STARTING:
                self._processes[rank].child.terminate()
        self._end_if_all_ended()

    def kill(self) -> None:
        """Ends every rank at once."""
        self.stopping = True
        for process in self._processes.values():
            process.child.kill()

    def _tell(self, ranks: Iterable[int], message: Down) -> None:
        for rank in ranks:
            self._records[rank] = self._records[rank].told(message)
            self._processes[rank].send(message)

    def _rank_ended(self, rank: int, exit_code: int) -> None:
        record = self._records[rank] = self._records[rank].ended(exit_code)
        if exit_code == 0 and isinstance(record.standing, Done):
            self._send(record.standing)
        elif self.finished and not self.environment.command:
            if exit_code != 0:
                _logger.warning("rank %d ended with exit code %d after the job was done", rank, exit_code)
        elif not self.stopping and not (self.finished and exit_code == 0):
            message = termination.of_rank(record, memory.oom_kills() > self._oom_kills)
            if record.failing is None:
                self._send(Failing(rank=rank, exit_code=message.exit_code, message=message.message))
            self._end(message)
        self._end_if_all_ended()

    def _end_if_all_ended(self) -> None:
        if any(record.exit_code is None for record in self._records.values()):
            return
        if self.finished:
            self._end(termination.of_done(self.records, self.report))
        elif self.stopping:
            self._end(termination.of_code(ExitCode.PREEMPTED, "the replica was asked to stop"))
