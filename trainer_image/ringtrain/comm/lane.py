"""The hybrid all-reduce: full precision inside machines, encoded between them."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from ringtrain.comm.collectives.direct import direct_all_reduce
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.collectives.ring import ring_all_reduce
from ringtrain.comm.intra import Intra
from ringtrain.comm.meter import LaneTraffic, LinkTraffic, ring_bytes
from ringtrain.comm.transport.transport import Transport

ALGORITHMS = {"ring": ring_all_reduce, "direct": direct_all_reduce}
_FULL_PRECISION_BYTES = 4


class Lane:
    """Connections of their own inside the machine and between machines, so that lanes need no common order.

    Machines are equal in size, and each process talks to those of the same place in other machines: all of them send
    a part of the segment, and the machine's network is shared fairly.
    """

    def __init__(
        self,
        intra: Intra,
        inter: Transport | None,
        algorithm: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`inter` is None on a single machine."""
        self._clock = clock
        self._intra = intra
        self._inter = inter
        self._algorithm = ALGORITHMS[algorithm]

    def all_reduce(
        self, segment: Tensor, scale: float, messages: Messages, ready: torch.cuda.Event | None = None
    ) -> LaneTraffic:
        """Overwrites `segment` by `scale` x the sum over all processes, the same bits on all of them.

        Its length is a multiple of machines x processes x the codec's block. On a GPU, `ready` is when it is complete.
        """
        messages.stage = self._intra.stage
        with self._intra.at_work(ready):
            return self._sum(segment, scale, messages)

    def _sum(self, segment: Tensor, scale: float, messages: Messages) -> LaneTraffic:
        began = self._clock()
        part = self._intra.reduce_scatter(segment, scale)
        scattered = self._clock()
        sent = 0
        if self._inter is not None:
            sent = self._algorithm(part, messages, self._inter)
        reduced = self._clock()
        self._intra.all_gather(part, segment)
        raw = segment.numel() * segment.itemsize
        machines = self._inter.size if self._inter is not None else 1
        return LaneTraffic(
            intra=LinkTraffic(
                raw_bytes=ring_bytes(raw, self._intra.size),
                sent_bytes=ring_bytes(segment.numel() * _FULL_PRECISION_BYTES, self._intra.size),
                codec_seconds=0.0,
                wire_seconds=scattered - began + self._clock() - reduced,
            ),
            inter=LinkTraffic(
                raw_bytes=ring_bytes(raw // self._intra.size, machines),
                sent_bytes=sent,
                codec_seconds=messages.codec_seconds,
                wire_seconds=reduced - scattered - messages.codec_seconds,
                sampled_square=messages.sampled_square,
                lost_square=messages.lost_square,
            ),
        )

    def abandon(self) -> None:
        """From any thread: an all-reduce that runs ends now, with Abandoned."""
        self._intra.abandon()
        if self._inter is not None:
            self._inter.abandon()
