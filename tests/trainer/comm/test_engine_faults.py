"""What goes wrong in an engine, with two engines of this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.plain import Plain, none
from ringtrain.comm.engine import Engine, Task, Ticket
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.fabric import LANES, Fabric
from ringtrain.comm.meter import Meter
from trainer.comm.test_lane import lanes


class Faulty(Plain):
    """Raises when it encodes, once `after` is set."""

    def __init__(self, error: Exception, after: threading.Event | None = None) -> None:
        super().__init__("faulty", torch.float32)
        self._error = error
        self._after = after

    def encode(self, values: Tensor, data: Tensor) -> bool:
        assert self._after is None or self._after.wait(60)
        raise self._error


class Held(Plain):
    """Encodes once it may."""

    def __init__(self) -> None:
        super().__init__("held", torch.float32)
        self.reached = threading.Event()
        self.may = threading.Event()

    def encode(self, values: Tensor, data: Tensor) -> bool:
        self.reached.set()
        assert self.may.wait(60)
        return super().encode(values, data)


@contextmanager
def engines() -> Iterator[tuple[Engine, Engine]]:
    """Of two machines."""
    ways = [lanes(2, 1, "ring") for _ in range(LANES)]
    pair = (
        Engine(Fabric(lanes=[way[0] for way in ways]), Meter()),
        Engine(Fabric(lanes=[way[1] for way in ways]), Meter()),
    )
    yield pair
    for engine in pair:
        engine.close()


def task(value: float, codec: Codec) -> Task:
    return Task(segment=torch.full((8,), value), scale=1.0, codec=codec, residual=None, keep=0.0, ready=None)


def failure(ticket: Ticket) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is
        ticket.wait(lambda: None)
    return raised.value


def test_the_first_failure_is_every_tickets() -> None:
    """And no peer takes a later sum of the lane that failed for the one that it missed."""
    held = Held()
    with engines() as (own, other):
        # Lane 1 has begun a sum when lane 0 fails, and ends it afterwards.
        others = [other.submit([task(1, none())]), other.submit([task(10, none())])]
        failing = own.submit([task(1, Faulty(ValueError("lane 0"), after=held.reached))])
        running = own.submit([task(10, held)])
        first = failure(failing)
        assert "ValueError: lane 0" in str(first)
        held.may.set()
        assert failure(running) is first
        later = task(100, none())
        assert failure(own.submit([later])) is first
        assert torch.equal(later.segment, torch.full((8,), 100.0))
        assert isinstance(failure(others[0]), PeerLost)


def test_all_is_summed_when_nothing_fails() -> None:
    with engines() as (own, other):
        tasks = [[task(value, none()) for value in (1, 10, 100)] for _ in (own, other)]
        tickets = [own.submit(tasks[0]), other.submit(tasks[1])]
        for ticket in tickets:
            ticket.wait(lambda: None)
        assert [[float(each.segment[3]) for each in side] for side in tasks] == [[2, 20, 200]] * 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("x"), RuntimeError),
        (MemoryError("x"), MemoryError),
        (torch.OutOfMemoryError("x"), torch.OutOfMemoryError),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fault_is_told_with_its_place(error: Exception, kind: type[Exception]) -> None:
    with engines() as (own, _):
        told = failure(own.submit([task(1, Faulty(error))]))
    assert type(told) is kind
    assert str(told).startswith("communication failed:\nTraceback")
    assert "in encode" in str(told)


def test_a_lost_peer_is_told_as_one() -> None:
    with engines() as (own, other):
        waiting = own.submit([task(1, none())])
        other.close()
        assert type(failure(waiting)) is PeerLost


def test_nothing_waits_for_an_engine_that_was_closed() -> None:
    with engines() as (own, _):
        queued = [own.submit([task(1, none())]) for _ in range(3 * LANES)]
        own.close()
        for ticket in [*queued, own.submit([task(1, none()), task(2, none())])]:
            assert "this engine was closed: the generation of its group is over" in str(failure(ticket))
        own.submit([]).wait(lambda: None)
