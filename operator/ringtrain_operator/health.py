"""Whether the watches are alive: each full list is compared with what the watches delivered.

A watch can die without an error: its connection stays open, or its task ended, and events just stop. Then lists show
versions of objects that no event ever brought.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

DELIVERY_SECONDS = 120.0
"""An event may come this much later than a list that shows its object; kopf itself reconnects after 70 s of silence."""
LIST_SECONDS = 300.0
"""Without a successful list for this long the operator is blind, whatever the watches say."""


@dataclass(slots=True)
class _Kind:
    listed_at: float
    seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By UID: resource version and time of the last event."""
    missing: dict[str, float] = field(default_factory=dict)
    """By UID: since when an event is missing."""


class WatchHealth:
    """Times are in seconds of any monotonic clock, and come from the caller."""

    def __init__(self, kinds: Iterable[str], now: float) -> None:
        self._kinds = {kind: _Kind(listed_at=now) for kind in kinds}
        self._listed: set[str] = set()

    def event(self, kind: str, uid: str, resource_version: str, now: float) -> None:
        """A watch delivered this version."""
        self._kinds[kind].seen[uid] = (resource_version, now)
        self._kinds[kind].missing.pop(uid, None)

    def deleted(self, kind: str, uid: str) -> None:
        """A watch delivered the object's deletion."""
        self._kinds[kind].seen.pop(uid, None)
        self._kinds[kind].missing.pop(uid, None)

    def listed(self, kind: str, versions: dict[str, str], asked: float, now: float) -> set[str]:
        """A list asked for at `asked` showed these resource versions, by UID. The UIDs of which no event told yet."""
        state = self._kinds[kind]
        state.listed_at = now
        self._listed.add(kind)
        # An object of which an event came after the question is alive, whatever version the list shows. Those that
        # the list does not show are gone: forgetting them keeps this bounded when their deletion was missed.
        state.seen = {uid: last for uid, last in state.seen.items() if uid in versions or last[1] >= asked}
        behind = {uid for uid, version in versions.items() if not self._is_fresh(state, uid, version, asked)}
        state.missing = {uid: state.missing.get(uid, now) for uid in behind}
        return behind

    def problems(self, now: float) -> tuple[str, ...]:
        """Reasons to restart the operator; none while all is well."""
        found: list[str] = []
        for kind, state in self._kinds.items():
            silence = now - min(state.missing.values(), default=now)
            if silence > DELIVERY_SECONDS:
                found.append(f"the watch of {kind} delivered nothing for {silence:.0f} s although objects changed")
            if now - state.listed_at > LIST_SECONDS:
                found.append(f"{kind} could not be listed for {now - state.listed_at:.0f} s")
        return tuple(found)

    def is_ready(self) -> bool:
        """Whether every kind was listed at least once."""
        return len(self._listed) == len(self._kinds)

    @staticmethod
    def _is_fresh(state: _Kind, uid: str, version: str, asked: float) -> bool:
        last = state.seen.get(uid)
        return last is not None and (last[0] == version or last[1] >= asked)
