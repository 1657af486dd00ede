import pytest

from ringtrain.comm.engine import Ticket
from ringtrain.comm.errors import PeerLost


def poll() -> None:
    pass


def test_a_ticket_ends_with_its_last_task() -> None:
    ticket = Ticket(2)
    ticket.task_ended(None)
    assert not ticket.done()
    ticket.task_ended(None)
    assert ticket.done()
    ticket.wait(poll)


def test_the_first_failure_ends_it() -> None:
    ticket = Ticket(4)
    ticket.task_ended(None)
    first = PeerLost("gone")
    ticket.task_ended(first)
    assert ticket.done()
    for failure in (None, PeerLost("too")):
        ticket.task_ended(failure)
    with pytest.raises(PeerLost) as raised:
        ticket.wait(poll)
    assert raised.value is first


def test_nothing_to_do_is_done() -> None:
    Ticket(0).wait(poll)
