"""How much a round communicates, and how much of that training waits for."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTraffic:
    """One round of one rank."""

    raw_bytes: int
    """Would be sent without compression."""
    sent_bytes: int
    """Sent."""
    communication_seconds: float
    """In which at least one reduction ran, as far as the training thread saw."""
    exposed_seconds: float
    """In which training waited for communication and did nothing else."""
    round_seconds: float

    @property
    def share(self) -> float:
        """Exposed / round time, 0..1."""
        return self.exposed_seconds / self.round_seconds if self.round_seconds > 0 else 0.0


def ring_bytes(payload: int, size: int) -> int:
    """Bytes that each of `size` ranks sends in a ring all-reduce of `payload` bytes."""
    return 2 * (size - 1) * payload // size


class Meter:
    """Adds up one round after another. The clock gives seconds from any start, and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin_round()

    def begin_round(self) -> None:
        """Forgets what came before, a broken round for instance."""
        self._began = self._clock()
        self._raw = self._sent = self._running = 0
        self._communicating_since = 0.0
        self._communication = self._exposed = 0.0

    def started(self, *, raw_bytes: int, sent_bytes: int) -> None:
        """A reduction was started."""
        self._raw += raw_bytes
        self._sent += sent_bytes
        if self._running == 0:
            self._communicating_since = self._clock()
        self._running += 1

    def ended(self) -> None:
        """A reduction was seen to have ended."""
        self._running -= 1
        if self._running == 0:
            self._communication += self._clock() - self._communicating_since

    @contextmanager
    def exposed(self) -> Iterator[None]:
        """Around a wait of the training thread for communication."""
        began = self._clock()
        try:
            yield
        finally:
            self._exposed += self._clock() - began

    def end_round(self) -> RoundTraffic:
        """The round's traffic; the next round begins now."""
        traffic = RoundTraffic(
            raw_bytes=self._raw,
            sent_bytes=self._sent,
            communication_seconds=self._communication,
            exposed_seconds=self._exposed,
            round_seconds=self._clock() - self._began,
        )
        self.begin_round()
        return traffic
