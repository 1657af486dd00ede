"""Whether every rank's heartbeat is fresh for its phase: what /livez says."""

from collections.abc import Iterable
from dataclasses import dataclass

from ringtrain.agent.record import RankRecord
from ringtrain.contract.phases import PhaseTimeouts


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
    """Ranks that have ended, and those of which no heartbeat is asked, are not judged."""
    overdue = []
    for record in records:
        limit = timeouts.limit(record.phase)
        if not record.judged or record.exit_code is not None or limit is None:
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
