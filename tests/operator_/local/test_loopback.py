import random
import socket

from ringtrain.contract.addresses import COORDINATOR_PORT
from ringtrain_operator.local.loopback import LoopbackBlock


def test_two_runs_with_the_same_luck_get_different_blocks() -> None:
    first, second = LoopbackBlock(random.Random(7)), LoopbackBlock(random.Random(7))
    try:
        assert first.addresses != second.addresses
    finally:
        first.close()
        second.close()
    third = LoopbackBlock(random.Random(7))
    third.close()
    assert third.addresses == first.addresses


def test_a_block_whose_ports_are_in_use_is_left_out() -> None:
    wanted = LoopbackBlock(random.Random(3))
    wanted.close()
    with socket.create_server((wanted.addresses.of(0), COORDINATOR_PORT)):
        other = LoopbackBlock(random.Random(3))
        other.close()
    assert other.addresses != wanted.addresses
