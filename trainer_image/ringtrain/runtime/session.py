"""The rank's side of the socket to its agent: heartbeats up, membership down."""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import (
    Beat,
    Broken,
    Checked,
    Committed,
    Done,
    Enter,
    Failing,
    Finished,
    Holds,
    Leave,
    Message,
    Ready,
    Report,
    SaveFailed,
    ShardFile,
    ShardsWritten,
    Stop,
    decode,
    encode,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Fitness, Progress
from ringtrain.runtime.errors import Interrupted, JobFinished, NoSession, Preempted

_BEAT_INTERVAL = 0.1
_WAIT_STEP = 0.05
_FLUSH_SECONDS = 2.0


class Session:
    """One rank's connection to its agent. It never blocks the training: what cannot be sent yet is kept for later."""

    def __init__(
        self,
        environment: ReplicaEnvironment,
        local_rank: int,
        connection: socket.socket,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.environment = environment
        self.local_rank = local_rank
        self.rank = environment.rank(local_rank)
        self.world_size = environment.world_size
        self.generation: str | None = None
        """The generation that was entered last."""
        self.progress: Progress | None = None
        """As of the last beat that carried any."""
        self.saves_before_stop = False
        """Whether there is, or will be, something to save, and somebody will call `stop_if_asked` at the end of each
        round, once all is saved: until then, or until the time for it is over, a rank that is to stop goes on."""
        self._clock = clock
        self._connection = connection
        self._connection.setblocking(False)
        # Communication threads poll the session too.
        self._lock = threading.RLock()
        self._incoming = b""
        self._outgoing = b""
        self._phase = Phase.STARTING
        self._last_beat = float("-inf")
        self._enter: Enter | None = None
        self._leave: Leave | None = None
        self._stop: Stop | None = None
        self._stop_at = float("inf")
        self._finished = False
        self._committed: dict[tuple[str, int], str] = {}
        self._send_beat()

    @classmethod
    def from_environment(cls) -> Self:
        """The session of this process. Raises NoSession outside a replica, or when it was opened before."""
        # Child processes of the rank must not take the socket for theirs.
        descriptor = os.environ.pop("RINGTRAIN_RANK_FD", None)
        if descriptor is None:
            raise NoSession(
                "RINGTRAIN_RANK_FD is not set: this process was not started by a Ringtrain agent, or has opened its "
                "session before. Start it by a TrainingJob: `ringtrain run -f job.yaml` on this machine"
            )
        connection = socket.socket(fileno=int(descriptor))
        connection.set_inheritable(False)
        return cls(ReplicaEnvironment.from_env(os.environ), int(os.environ["LOCAL_RANK"]), connection)

    def beat(self, phase: Phase, progress: Progress | None = None) -> None:
        """A heartbeat of the training thread. Raises Interrupted once the current generation was left, and Preempted
        once the replica is to stop. Cheap: call it as often as you like."""
        with self._lock:
            self._beat(phase, progress)
            self._raise_if_over()

    def poll(self) -> None:
        """`beat` in the current phase, for loops that wait for a collective."""
        self.beat(self._phase)

    def next_generation(self) -> Enter:
        """Asks for the next generation and waits for it, for ever. Raises Preempted or JobFinished."""
        after = self.generation
        with self._lock:
            self._enter = None
            self._send(Ready(rank=self.rank, after=after))
        while True:
            with self._lock:
                self._beat(Phase.WAITING)
                self._stop_if_due()
                if self._finished:
                    raise JobFinished
                enter = self._enter
                if enter is not None and _is_newer(enter.generation, after):
                    self.generation = enter.generation
                    self._committed.clear()
                    return enter
            self._wait()

    def broken(self, reason: str) -> None:
        """Reports that a collective of the current generation failed here."""
        with self._lock:
            self._send(Broken(rank=self.rank, generation=self._current(), reason=reason))

    @property
    def asked_to_stop(self) -> bool:
        """Whether the replica is to end, and its ranks may still save."""
        return self._stop is not None

    def stop_if_asked(self) -> None:
        """Raises Preempted when the replica is to end: nothing is left to save."""
        if self._stop is not None:
            raise Preempted(self._stop.reason)

    def shards_written(self, generation: Generation, round: int, files: Sequence[ShardFile], layout: str) -> None:
        """Reports that this rank's part of a checkpoint lies flushed in the staging directory. From any thread."""
        message = ShardsWritten(
            rank=self.rank, generation=str(generation), round=round, files=tuple(files), layout=layout
        )
        with self._lock:
            self._send(message)

    def save_failed(self, generation: Generation, round: int, reason: str) -> None:
        """Reports that this rank could not write its part of a checkpoint. From any thread."""
        with self._lock:
            self._send(SaveFailed(rank=self.rank, generation=str(generation), round=round, reason=reason))

    def committed(self, generation: Generation, round: int) -> str | None:
        """ "" once the checkpoint is committed, the reason once it was given up, None before; told once."""
        with self._lock:
            return self._committed.pop((str(generation), round), None)

    def pause(self) -> None:
        """A short wait of the training thread, between two beats."""
        self._wait()

    def report(self, reason: str, message: str, warning: bool = True) -> None:
        """Tells the user something; `reason` is CamelCase, as of a Kubernetes event."""
        with self._lock:
            self._send(Report(rank=self.rank, reason=reason, message=message, warning=warning))

    def holds(self, part: str) -> None:
        """Tells which part of the model this rank holds."""
        with self._lock:
            self._send(Holds(rank=self.rank, part=part))

    def checked(self, fitness: Fitness) -> None:
        """Tells that this rank, and all others, are fit."""
        with self._lock:
            self._send(Checked(rank=self.rank, fitness=fitness))

    def done(self, round: int) -> None:
        """Reports that all rounds are trained; `round` is how many."""
        with self._lock:
            self._send(Done(rank=self.rank, round=round))

    def wait_finished(self) -> None:
        """Waits, for ever, until all ranks are done. Raises Interrupted when a rank was lost before, or Preempted."""
        while True:
            with self._lock:
                self._beat(Phase.DONE)
                if self._finished:
                    return
                self._raise_if_over()
            self._wait()

    def failing(self, exit_code: int, message: str, round: int | None = None) -> None:
        """Reports why this process is about to exit. Returns once the agent can read it."""
        with self._lock:
            self._send(Failing(rank=self.rank, exit_code=exit_code, message=message, round=round))
            deadline = self._clock() + _FLUSH_SECONDS
            while self._outgoing and self._clock() < deadline:
                select.select([], [self._connection], [], _WAIT_STEP)
                self._flush()

    def close(self) -> None:
        self._connection.close()

    def _current(self) -> str:
        if self.generation is None:
            raise RuntimeError("no generation was entered yet: call next_generation first")
        return self.generation

    def _beat(self, phase: Phase, progress: Progress | None = None) -> None:
        changed = phase is not self._phase or (progress is not None and progress != self.progress)
        self._phase = phase
        if progress is not None:
            self.progress = progress
        if changed or self._clock() - self._last_beat >= _BEAT_INTERVAL:
            self._send_beat()
        self._receive()

    def _send_beat(self) -> None:
        self._last_beat = self._clock()
        # A beat behind unsent messages would be old news when it arrives.
        if not self._outgoing:
            generation = None if self._phase in (Phase.STARTING, Phase.WAITING) else self.generation
            self._send(Beat(rank=self.rank, phase=self._phase, generation=generation, progress=self.progress))

    def _stop_if_due(self) -> None:
        if not self.saves_before_stop or self._clock() >= self._stop_at:
            self.stop_if_asked()

    def _raise_if_over(self) -> None:
        self._stop_if_due()
        leave = self._leave
        if leave is not None and self.generation is not None and not _is_newer(self.generation, leave.generation):
            raise Interrupted(self.generation, leave.reason)

    def _wait(self) -> None:
        select.select([self._connection], [], [], _WAIT_STEP)

    def _send(self, message: Message) -> None:
        self._outgoing += encode(message)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                sent = self._connection.send(self._outgoing)
                self._outgoing = self._outgoing[sent:]
        except BlockingIOError:
            pass
        except OSError:
            _die_with_agent()

    def _receive(self) -> None:
        self._flush()
        try:
            while data := self._connection.recv(1 << 16):
                self._incoming += data
        except BlockingIOError:
            pass
        except OSError:
            _die_with_agent()
        else:
            _die_with_agent()
        *lines, self._incoming = self._incoming.split(b"\n")
        for line in lines:
            self._take(decode(line))

    def _take(self, message: Message) -> None:
        match message:
            case Enter():
                self._enter = message
            case Leave():
                self._leave = message
            case Committed(generation=generation, round=round, error=error):
                if generation == self.generation:
                    self._committed[generation, round] = error
            case Stop():
                self._stop = message
                self._stop_at = self._clock() + message.seconds
            case Finished():
                self._finished = True


def _is_newer(generation: str, than: str | None) -> bool:
    return than is None or Generation.parse(generation) > Generation.parse(than)


def _die_with_agent() -> None:
    # A rank must never outlive its agent: its replacement may be training already.
    os._exit(ExitCode.LOST_PEER)
