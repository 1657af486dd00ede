"""Inside one machine: each process gets the full-precision sum of a part, and later everybody gets all parts."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import store
from ringtrain.comm.collectives.stage import OnCpu, Stage
from ringtrain.comm.transport.transport import Transport


class Intra(Protocol):
    """The processes of one machine, `size` of them. Segments are flat, of the same length on all of them, a multiple
    of `size`; of any floating dtype; on the processes' device."""

    @property
    def size(self) -> int: ...

    @property
    def stage(self) -> Stage:
        """From where the processes' device is to where messages to other machines are sent."""
        ...

    def at_work(self, ready: torch.cuda.Event | None) -> AbstractContextManager[object]:
        """What is done in it to segments and parts waits for `ready`, on a GPU, and for nothing else."""
        ...

    def reduce_scatter(self, segment: Tensor, scale: float) -> Tensor:
        """This process's part of `scale` x the sum of all segments: float32, on the processes' device. It may be
        `segment` itself."""
        ...

    def all_gather(self, part: Tensor, segment: Tensor) -> None:
        """Overwrites `segment` by everybody's parts."""
        ...

    def abandon(self) -> None:
        """From any thread: every wait ends now, with Abandoned."""
        ...


class Alone:
    """The only process of its machine, on the CPU."""

    size = 1
    stage = OnCpu()

    def at_work(self, ready: torch.cuda.Event | None) -> AbstractContextManager[object]:
        return nullcontext(ready)

    def reduce_scatter(self, segment: Tensor, scale: float) -> Tensor:
        return segment.float() if scale == 1 else segment.float() * scale

    def all_gather(self, part: Tensor, segment: Tensor) -> None:
        if part.data_ptr() != segment.data_ptr():
            store(part, segment)

    def abandon(self) -> None:
        pass


class OverTransport:
    """Over any transport, on the CPU. Sums are float32, in the order of ranks."""

    stage = OnCpu()

    def __init__(self, transport: Transport) -> None:
        self.size = transport.size
        self._transport = transport

    def at_work(self, ready: torch.cuda.Event | None) -> AbstractContextManager[object]:
        return nullcontext(ready)

    def reduce_scatter(self, segment: Tensor, scale: float) -> Tensor:
        parts = segment.float() if scale == 1 else segment.float() * scale
        received = torch.empty_like(parts)
        self._transport.all_to_all(parts.view(torch.uint8), received.view(torch.uint8)).wait()
        return received.view(self.size, -1).sum(0)

    def all_gather(self, part: Tensor, segment: Tensor) -> None:
        gathered = segment if segment.dtype == torch.float32 else torch.empty(len(segment))
        self._transport.all_gather(part.view(torch.uint8), gathered.view(torch.uint8)).wait()
        if gathered is not segment:
            store(gathered, segment)

    def abandon(self) -> None:
        self._transport.abandon()
