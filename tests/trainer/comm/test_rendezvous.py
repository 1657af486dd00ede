import socket
import threading
from datetime import timedelta

import pytest
from torch._C._distributed_c10d import HashStore, TCPStore

from ringtrain.comm.errors import Abandoned
from ringtrain.comm.rendezvous import Attempt


def _attempt(rank: int = 0, size: int = 3, seconds: float = 60.0, generation: str = "1.0") -> Attempt:
    return Attempt(generation, rank, size, timedelta(seconds=seconds), threading.Event())


def test_members_meet() -> None:
    store, met = HashStore(), []

    def member(rank: int) -> None:
        _attempt(rank).meet(store)
        met.append(rank)

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(met) == [0, 1, 2]


def test_missing_members_are_named() -> None:
    with pytest.raises(RuntimeError, match="these ranks are missing: 0, 2"):
        _attempt(rank=1, seconds=0.0).meet(HashStore())


def test_meeting_can_be_given_up() -> None:
    attempt = _attempt()
    attempt.abandoned.set()
    with pytest.raises(Abandoned):
        attempt.meet(HashStore())


def test_generations_do_not_meet() -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    old = _attempt(rank=0, size=2, seconds=60.0, generation="1.0").connect("127.0.0.1", server.port)
    new = _attempt(rank=0, size=2, seconds=60.0, generation="1.1").connect("127.0.0.1", server.port)
    with pytest.raises(RuntimeError, match="missing: 1"):
        _attempt(rank=0, size=2, seconds=0.0).meet(old)
    with pytest.raises(RuntimeError, match="missing: 0"):
        _attempt(rank=1, size=2, seconds=0.0).meet(new)


def test_a_store_that_is_not_there_can_be_given_up() -> None:
    attempt = _attempt()
    attempt.abandoned.set()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # Bound, but not listening: connections are refused.
        with pytest.raises(Abandoned):
            attempt.connect(*unused.getsockname())
