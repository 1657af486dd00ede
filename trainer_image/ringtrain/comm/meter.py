"""How much a round communicates, and how much of that training waits for."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraffic:
    """What went over one kind of link, of one process. Seconds are added up over lanes: they may pass the round's."""

    raw_bytes: int = 0
    """A ring all-reduce would send, of the gradients as they are."""
    sent_bytes: int = 0
    """Sent."""
    codec_seconds: float = 0.0
    """Encoding, decoding and adding."""
    wire_seconds: float = 0.0
    """Sending, and waiting for peers."""
    sampled_square: float = 0.0
    """Squares of values that were encoded, added up, of one message of each bucket."""
    lost_square: float = 0.0
    """Squares of what encoding lost of them."""

    def __add__(self, other: "LinkTraffic") -> "LinkTraffic":
        return LinkTraffic(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTraffic:
    """What one all-reduce cost one process."""

    intra: LinkTraffic
    """Inside the machine."""
    inter: LinkTraffic
    """Between machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTraffic:
    """One round of one rank."""

    intra: LinkTraffic
    inter: LinkTraffic
    communication_seconds: float
    """In which at least one all-reduce ran."""
    exposed_seconds: float
    """In which training waited for communication and did nothing else."""
    round_seconds: float

    def __add__(self, other: "RoundTraffic") -> "RoundTraffic":
        """Of several rounds together."""
        return RoundTraffic(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    @property
    def share(self) -> float:
        """Exposed / round time, 0..1."""
        return self.exposed_seconds / self.round_seconds if self.round_seconds > 0 else 0.0


def ring_bytes(payload: int, size: int) -> int:
    """Bytes that each of `size` ranks sends in a ring all-reduce of `payload` bytes."""
    return 2 * (size - 1) * payload // size


class Meter:
    """Adds up one round after another, in memory that does not grow. The clock gives seconds from any start, and never
    goes back.

    Lanes report from their own threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running = 0
        """All-reduces."""
        self.begin_round()

    def begin_round(self) -> None:
        """Forgets what came before, a broken round for instance."""
        with self._lock:
            self._begin()

    def summed(self, traffic: LaneTraffic) -> None:
        """An all-reduce succeeded."""
        with self._lock:
            self._intra += traffic.intra
            self._inter += traffic.inter

    @contextmanager
    def summing(self) -> Iterator[None]:
        """Around an all-reduce, in its lane's thread."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

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
        with self._lock:
            self._advance()
            traffic = RoundTraffic(
                intra=self._intra,
                inter=self._inter,
                communication_seconds=self._communication,
                exposed_seconds=self._exposed,
                round_seconds=self._now - self._began,
            )
            self._begin()
        return traffic

    def _begin(self) -> None:
        self._began = self._now = self._clock()
        self._intra = self._inter = LinkTraffic()
        self._communication = self._exposed = 0.0

    def _count(self, change: int) -> None:
        with self._lock:
            self._advance()
            self._running += change

    def _advance(self) -> None:
        """The time since the last call is one of communication if some all-reduce ran."""
        now = self._clock()
        if self._running:
            self._communication += now - self._now
        self._now = now
