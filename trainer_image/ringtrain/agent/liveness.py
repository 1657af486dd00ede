"""Whether every rank's heartbeat is fresh for its phase: what /livez says."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ringtrain.agent.record import RankRecord
from ringtrain.contract.phases import Phase, PhaseTimeouts

STOPPED_SECONDS = 2.0
"""For which a rank may be stopped by a signal. A debugger that holds it is none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    hung: RankRecord | None = None
    """The rank whose heartbeat is the most overdue."""
    reason: str = ""
    """Why the replica is not live; names the rank and its phase."""

    @property
    def live(self) -> bool:
        return self.hung is None


def verdict(records: Iterable[RankRecord], timeouts: PhaseTimeouts, now: float) -> Verdict:
    """What the kubelet is told. Ranks that have ended, and those of which no heartbeat is asked, are not judged."""
    return _judged(records, timeouts.limit, now)


def silence(records: Sequence[RankRecord], timeouts: PhaseTimeouts, now: float) -> Verdict:
    """What the agent acts on itself. A rank that waits for others says so all the time: one that is silent hangs, too,
    and to start it again costs nobody else's pod. One that is stopped (SIGSTOP) does nothing in any phase, and all
    others wait for it."""
    for record in records:
        if record.beats and record.exit_code is None and record.stopped_at is not None:
            seconds = now - record.stopped_at
            if seconds > STOPPED_SECONDS:
                return Verdict(record, f"rank {record.rank} has not run for {seconds:.1f} s in phase {record.phase}")
    return _judged(records, lambda phase: timeouts.limit(phase) or timeouts.training, now)


def _judged(records: Iterable[RankRecord], limit_of: Callable[[Phase], float | None], now: float) -> Verdict:
    overdue = []
    for record in records:
        limit = limit_of(record.phase)
        if not record.beats or record.exit_code is not None or limit is None:
            continue
        age = now - record.beat_at
        if age > limit:
            overdue.append((age / limit, age, limit, record))
    if not overdue:
        return Verdict()
    _, age, limit, worst = max(overdue, key=lambda entry: entry[0])
    return Verdict(
        worst,
        f"rank {worst.rank} has sent no heartbeat for {age:.1f} s in phase {worst.phase} (its limit is {limit:g} s)",
    )
