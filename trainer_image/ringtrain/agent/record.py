"""What the agent knows of one rank, and how messages in either direction change it: pure.

A command's process has a session or has none, which is not known before it opens one. Without one, its agent takes part
in generations for it: it starts the process in one, and kills it when that is over.
"""

from dataclasses import dataclass, field, replace

from ringtrain.agent.in_place import InPlace
from ringtrain.contract.messages import (
    Beat,
    Checked,
    Done,
    Down,
    Enter,
    Failing,
    Holds,
    JobReported,
    Leave,
    Ready,
    Start,
    Unstarted,
    Up,
)
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Fitness, Progress, RankStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    rank: int
    pid: int | None = None
    judged: bool
    """Whether heartbeats are asked of it: of the built-in trainer always, of a user's command once it has a session."""
    beat_at: float
    """Monotonic seconds of the last heartbeat, at first of the start."""
    stopped_at: float | None = None
    """Monotonic seconds of the first look that found it stopped by a signal; None while it runs."""
    phase: Phase = Phase.STARTING
    progress: Progress | None = None
    generation: str | None = None
    """The one it is in; None while it waits."""
    standing: Unstarted | Ready | Done | None = None
    """What a coordinator that does not know this rank must be told; Unstarted only once its process has ended."""
    part: str = ""
    """Of the model, that it holds."""
    fitness: Fitness | None = None
    """By the last pre-flight check of it, or of the process in whose place it is; None before any."""
    failing: Failing | None = None
    hang: str = ""
    """Why it was killed as hung."""
    in_place: InPlace = field(default_factory=lambda: InPlace(0))
    exit_code: int | None = None
    """None while it runs."""

    @classmethod
    def of_command(cls, rank: int, now: float, after: str | None = None) -> "RankRecord":
        """Of a command that waits to be started."""
        standing = Unstarted(rank=rank, after=after)
        return cls(rank=rank, judged=False, beat_at=now, phase=Phase.WAITING, standing=standing)

    @property
    def running(self) -> bool:
        return self.pid is not None and self.exit_code is None

    @property
    def waits_for_start(self) -> bool:
        return isinstance(self.standing, Unstarted) and self.phase is Phase.WAITING

    @property
    def is_leaving(self) -> bool:
        """Its process is to end, because its generation is over."""
        return isinstance(self.standing, Unstarted) and not self.waits_for_start

    @property
    def failed(self) -> bool:
        return self.exit_code not in (None, 0)

    def seen(self, stopped: bool, now: float) -> "RankRecord":
        """After a look at its process."""
        if not stopped:
            return self if self.stopped_at is None else replace(self, stopped_at=None)
        return self if self.stopped_at is not None else replace(self, stopped_at=now)

    @property
    def beats(self) -> bool:
        """Whether heartbeats are asked of it now: in its check, a command is not yet itself."""
        return self.judged or self.phase is Phase.CHECKING

    def checking(self, message: Up, now: float) -> "RankRecord":
        """After a message from the process that checks the machine before the command."""
        match message:
            case Beat(phase=Phase.CHECKING):
                return replace(self, phase=Phase.CHECKING, beat_at=now)
            case Checked():
                return replace(self, fitness=message.fitness)
            case Failing():
                return replace(self, failing=message)
        return self

    def passed(self) -> "RankRecord":
        """After that process ended well: the command is to follow."""
        return replace(self, pid=None, phase=Phase.STARTING)

    def begun(self, pid: int, now: float) -> "RankRecord":
        """After its process was started."""
        return replace(self, pid=pid, beat_at=now)

    def sent(self, message: Up, now: float) -> "RankRecord":
        """After a message from the rank; each is a sign of life, and of a session."""
        alive = replace(self, judged=True, beat_at=now, generation=self.generation if self.judged else None)
        match message:
            case Beat(progress=progress):
                in_place = self.in_place.reached(progress.round) if progress is not None else self.in_place
                return replace(alive, phase=message.phase, progress=progress or self.progress, in_place=in_place)
            case Ready():
                return replace(alive, phase=Phase.WAITING, standing=message, generation=None)
            case Done():
                return replace(alive, phase=Phase.DONE)
            case Holds():
                return replace(alive, part=message.part)
            case Checked():
                return replace(alive, fitness=message.fitness)
            case Failing():
                return replace(alive, failing=message)
        return alive

    def told(self, message: Down) -> "RankRecord":
        """After a message to the rank, or to its agent in its place."""
        match message:
            case Start() if self.waits_for_start:
                return replace(self, phase=Phase.STARTING, generation=message.generation, standing=None)
            case Leave() if not self.judged and self.generation == message.generation:
                if self.exit_code is not None:
                    return self._waiting(after=self.generation)
                return replace(self, generation=None, standing=Unstarted(rank=self.rank, after=self.generation))
            case Enter():
                return replace(self, generation=message.generation, standing=None)
            case JobReported(report=report) if not self.judged and self.running:
                # The coordinator sees that ranks rendezvous by themselves.
                if report.phase is Phase.TRAINING and report.generation == self.generation:
                    return replace(self, phase=Phase.TRAINING)
        return self

    def ended(self, exit_code: int) -> "RankRecord":
        """After its process ended. A command that never opened a session has done its work when it exits with 0."""
        if self.is_leaving and isinstance(self.standing, Unstarted):
            return self._waiting(after=self.standing.after)
        if exit_code == 0 and not self.judged:
            done = Done(rank=self.rank, round=0)
            return replace(self, exit_code=exit_code, phase=Phase.DONE, standing=done)
        return replace(self, exit_code=exit_code)

    def _waiting(self, after: str | None) -> "RankRecord":
        waiting = self.of_command(self.rank, self.beat_at, after=after)
        return replace(waiting, in_place=self.in_place, fitness=self.fitness)

    def restarted(self, now: float) -> "RankRecord":
        """After its process ended, for the one that takes its place."""
        return RankRecord(
            rank=self.rank,
            judged=True,
            beat_at=now,
            progress=self.progress,
            fitness=self.fitness,
            in_place=self.in_place.restarted(),
        )

    def status(self, now: float) -> RankStatus:
        """Without a session, being alive is the heartbeat."""
        return RankStatus(
            rank=self.rank,
            phase=self.phase,
            pid=self.pid if self.exit_code is None else None,
            beat_age=max(0.0, now - self.beat_at) if self.judged else 0.0,
            progress=self.progress,
            part=self.part,
            fitness=self.fitness,
            restarts=self.in_place.total,
        )
