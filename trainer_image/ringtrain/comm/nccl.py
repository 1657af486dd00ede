"""Inside one machine with GPUs: NCCL."""

import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, ReduceScatterOptions, Store

from ringtrain.comm.codec.codec import store as store_values
from ringtrain.comm.collectives.stage import OnDevice
from ringtrain.comm.errors import Abandoned

_PAUSE = 50e-6


class Nccl:
    """The processes of one machine, each with a GPU of its own. Works on a stream of its own, beside the backward pass.

    NCCL connects in its first collective, which blocks: so make it, and use it, on a thread that can be left.
    """

    def __init__(self, store: Store, rank: int, size: int, device: torch.device) -> None:
        self.size = size
        self.stage = OnDevice(device)
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._abandoned = threading.Event()
        nccl: Any = dist.ProcessGroupNCCL  # Absent where torch was built for CPUs.
        self._group = nccl(store, rank, size) if size > 1 else None

    def at_work(self, ready: torch.cuda.Event | None) -> AbstractContextManager[object]:
        if ready is not None:
            self._stream.wait_event(ready)
        return torch.cuda.stream(self._stream)

    def reduce_scatter(self, segment: Tensor, scale: float) -> Tensor:
        part = parts = segment.float() if scale == 1 else segment.float() * scale
        if self._group is not None:
            part = torch.empty(parts.numel() // self.size, device=self._device)
            self._group._reduce_scatter_base(part, parts, ReduceScatterOptions()).wait()
        self._settle()  # Here, where it can be left: whoever encodes waits for the stream, and for nobody else.
        return part

    def all_gather(self, part: Tensor, segment: Tensor) -> None:
        gathered = part
        if self._group is not None:
            gathered = torch.empty(segment.numel(), device=self._device)
            self._group._allgather_base(gathered, part, AllgatherOptions()).wait()
        if gathered.data_ptr() != segment.data_ptr():
            store_values(gathered, segment)
        self._settle()

    def abandon(self) -> None:
        self._abandoned.set()

    def abort(self) -> None:
        """Ends collectives that still run on the GPU. May block for long."""
        if self._group is not None:
            self._group.abort()
            self._group = None

    def _settle(self) -> None:
        """Until the stream has done all so far. Raises Abandoned."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._stream)
        while not event.query():  # type: ignore[no-untyped-call]
            if self._abandoned.is_set():
                raise Abandoned
            time.sleep(_PAUSE)
