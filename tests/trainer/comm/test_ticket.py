import pytest

from ringtrain.comm.engine import Ticket
from ringtrain.comm.errors import PeerLost


def poll() -> None:
    pass


def test_a_ticket_ends_with_its_last_task() -> None:
    ended: list[Exception | None] = []
    ticket = Ticket(2, ended.append)
    ticket.task_ended(None)
    assert not ticket.done()
    ticket.task_ended(None)
    assert ticket.done()
    ticket.wait(poll)
    assert ended == [None]


def test_the_first_failure_ends_it_once() -> None:
    ended: list[Exception | None] = []
    ticket = Ticket(3, ended.append)
    first = PeerLost("gone")
    for failure in (None, first, PeerLost("too")):
        ticket.task_ended(failure)
    assert ended == [first]
    with pytest.raises(PeerLost) as raised:
        ticket.wait(poll)
    assert raised.value is first


def test_nothing_to_do_is_done() -> None:
    ended: list[Exception | None] = []
    Ticket(0, ended.append).wait(poll)
    assert ended == [None]
