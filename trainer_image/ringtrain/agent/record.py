"""What the agent knows of one rank, and how messages in either direction change it: pure."""

from dataclasses import dataclass, replace

from ringtrain.contract.messages import Beat, Done, Down, Enter, Failing, Ready, Up
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress, RankStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    rank: int
    pid: int | None = None
    judged: bool
    """Whether heartbeats are asked of it: of the built-in trainer always, of a user's command once it has a session."""
    beat_at: float
    """Monotonic seconds of the last heartbeat, at first of the start."""
    phase: Phase = Phase.STARTING
    progress: Progress | None = None
    generation: str | None = None
    """The one it is in; None while it waits."""
    standing: Ready | Done | None = None
    """What a coordinator that does not know this rank must be told."""
    failing: Failing | None = None
    exit_code: int | None = None
    """None while it runs."""

    def sent(self, message: Up, now: float) -> "RankRecord":
        """After a message from the rank; each is a sign of life."""
        alive = replace(self, judged=True, beat_at=now)
        match message:
            case Beat():
                return replace(alive, phase=message.phase, progress=message.progress or self.progress)
            case Ready():
                return replace(alive, phase=Phase.WAITING, standing=message, generation=None)
            case Done():
                return replace(alive, phase=Phase.DONE)
            case Failing():
                return replace(alive, failing=message)
        return alive

    def told(self, message: Down) -> "RankRecord":
        """After a message to the rank."""
        if isinstance(message, Enter):
            return replace(self, generation=message.generation, standing=None)
        return self

    def ended(self, exit_code: int) -> "RankRecord":
        """After its process ended. A command that never opened a session has done its work when it exits with 0."""
        if exit_code == 0 and not self.judged:
            done = Done(rank=self.rank, round=0)
            return replace(self, exit_code=exit_code, phase=Phase.DONE, standing=done)
        return replace(self, exit_code=exit_code)

    def status(self, now: float) -> RankStatus:
        return RankStatus(
            rank=self.rank,
            phase=self.phase,
            pid=self.pid if self.exit_code is None else None,
            beat_age=max(0.0, now - self.beat_at),
            progress=self.progress,
        )
