import signal
import socket

import pytest

from trainer.comm import bodies
from trainer.comm.ranks import Crew, Ranks

pytestmark = pytest.mark.distributed


@pytest.mark.parametrize("size", [1, 3])
def test_collectives(crew: Crew, size: int) -> None:
    results = crew.run(size, bodies.collectives)
    for rank, result in enumerate(results):
        assert result == {
            "rank": (rank, size, "gloo", "cpu"),
            "sum": [size * (size + 1) / 2] * 5,
            "max": [size - 1, 0],
            "broadcast": [10 * (size - 1) + index for index in range(3)],
            "bytes": [b"x" * other for other in range(size)],
            "json": [{"rank": other, "name": f"replica-{other}"} for other in range(size)],
            "default": True,
            "default after destroy": False,
        }


def _expect(ranks: Ranks, members: list[int], *words: object) -> None:
    for rank in members:
        for word in words:
            assert ranks.hear(rank) == word


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_survivors_leave_and_form_the_next_generation(fault: signal.Signals) -> None:
    size, lost = 3, 1
    survivors = [rank for rank in range(size) if rank != lost]
    with Ranks() as ranks:
        for rank in survivors:
            ranks.start(rank, bodies.survive, size, "0.0")
        ranks.start(lost, bodies.fall_silent, size, "0.0", 3)
        _expect(ranks, [*survivors, lost], ("formed", "0.0"))
        _expect(ranks, [lost], "silent")
        _expect(ranks, survivors, ("started", 3))

        ranks.signal(lost, fault)
        for rank in survivors:
            ranks.say(rank, "leave")
        for rank in survivors:
            what, reason = ranks.hear(rank)
            assert what == "left"
            # A stopped process keeps its connections: only polling gets the others out.
            assert reason == "Left" or fault is signal.SIGKILL
        ranks.start(lost, bodies.survive, size, "1.0")
        for rank in survivors:
            ranks.say(rank, "1.0")
        _expect(ranks, [0, 1, 2], ("formed", "1.0"), ("started", 3))

        for rank in range(size):
            ranks.say(rank, "end")
        for rank in range(size):
            assert ranks.hear(rank)[0] == "left"
            assert ranks.hear(rank) == "ended"
            assert ranks.exit_code(rank) == 0


@pytest.mark.parametrize("destroy", [True, False])
def test_a_process_can_end_while_a_peer_hangs(destroy: bool) -> None:
    with Ranks() as ranks:
        ranks.start(0, bodies.exit_early, 2, destroy)
        ranks.start(1, bodies.fall_silent, 2, "0.0", 0)
        _expect(ranks, [1], ("formed", "0.0"), "silent")
        _expect(ranks, [0], "started")
        assert ranks.exit_code(0) == 70


def test_forming_can_be_left() -> None:
    with Ranks() as ranks:
        for rank in range(2):
            ranks.start(rank, bodies.form_and_leave, 2)
        for rank in range(2):
            ranks.say(rank, 2)
            assert ranks.hear(rank) == ("left", False)
        assert [ranks.hear(rank) for rank in range(2)] == [2.0, 2.0]


@pytest.mark.parametrize("store", [True, False])
def test_a_process_can_end_just_after_it_left_forming(store: bool) -> None:
    with Ranks() as ranks, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound, but not listening: connections are refused.
        ranks.start(0, bodies.exit_after_leaving, 2, ranks.port if store else unused.getsockname()[1])
        ranks.say(0, "leave")
        assert ranks.exit_code(0) == 70


def test_forming_without_a_member_ends() -> None:
    with Ranks() as ranks:
        ranks.start(0, bodies.form_too_late, 3)
        assert ranks.hear(0) == "generation 0.0 did not form: these ranks are missing: 1, 2"


def test_many_generations_in_one_process() -> None:
    with Ranks() as ranks:
        assert ranks.run(2, bodies.reform, 10) == ["freed", "freed"]
