import pytest

from trainer.comm.ranks import Ranks
from trainer.preflight import bodies

pytestmark = pytest.mark.distributed


@pytest.mark.parametrize("size", [2, 3])
def test_neighbors_exchange_what_they_know_of_each_other(size: int) -> None:
    with Ranks() as ranks:
        found = ranks.run(size, bodies.exchange_with_all)
    assert found == [[(peer, True) for peer, _ in of] for of in found]
    assert [{peer for peer, _ in of} for of in found] == [set(range(size)) - {rank} for rank in range(size)]


def test_what_was_not_sent_is_found_by_the_peers() -> None:
    with Ranks() as ranks:
        found = ranks.run(3, bodies.exchange_with_all, 1)
    assert [dict(of) for of in found] == [{1: False, 2: True}, {0: True, 2: True}, {0: True, 1: False}]


def test_a_peer_that_does_not_come_is_waited_for_in_vain() -> None:
    with Ranks() as ranks:
        assert ranks.run(2, bodies.exchange_with_nobody, 1.0) == [True, True]
