"""An all-gather of two ranks, whose content is known."""

import time

import torch
from torch import Tensor

from ringtrain.comm.errors import PeerLost
from ringtrain.comm.group import Group
from ringtrain.comm.polling import Poll

_BYTES = 16 << 20
_PATTERN = 251
_TIMES = 3


class _Late(Exception):
    """The time for it is over."""


def seconds_of_exchange(group: Group, peer: int, limit: float) -> float | None:
    """The best of several all-gathers of this rank and `peer`, which does the same now; None when they are not all
    there within `limit` seconds, or when one of them brings something else than the peer sent.

    Raises what the group's poll raises.
    """
    until = _until(group.poll, time.monotonic() + limit)
    own, known = message(group.rank), message(peer)
    times, right = [], True
    try:
        pair = group.pair(peer, until)
        for _ in range(_TIMES):
            started = time.perf_counter()
            received = group.gather_of_pair(pair, own, until)
            times.append(time.perf_counter() - started)
            # The peer, which may have got what was sent, goes on.
            right = right and torch.equal(received[int(peer > group.rank)], known)
    except (_Late, PeerLost):
        return None
    return min(times) if right else None


def message(rank: int) -> Tensor:
    """What `rank` sends: bytes in a pattern of its own."""
    pattern = (torch.arange(_PATTERN) * 31 + rank) % _PATTERN
    return pattern.to(torch.uint8).repeat(_BYTES // _PATTERN)


def _until(poll: Poll, end: float) -> Poll:
    def check() -> None:
        poll()
        if time.monotonic() > end:
            raise _Late

    return check
