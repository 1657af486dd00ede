"""The ranks of one machine that share out parameters, for torch's FSDP2."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions, PrefixStore, ReduceScatterOptions, Store
from torch.distributed import ReduceOp

from ringtrain.comm import gloo, polled
from ringtrain.comm.meter import LaneTraffic, LinkTraffic, Meter
from ringtrain.comm.polled import Gloo, PolledGroup
from ringtrain.comm.polling import Poll, run_polled


class Shards(PolledGroup):
    """Gathers parameters, and sums gradients where they belong."""

    backend = "ringtrain_shards"

    def __init__(self, rank: int, size: int, mesh: Gloo, poll: Poll) -> None:
        super().__init__(rank, size, mesh, poll)
        self.meter = Meter()
        """Of whoever trains: FSDP2 waits for each collective as soon as it has started it."""

    def all_gather_single(self, whole: Tensor, part: Tensor, options: AllgatherOptions | None = None) -> dist.Work:
        """`whole` becomes all ranks' `part`, by rank; both flat."""
        work = self._connected()._allgather_base(whole, part, options or AllgatherOptions())
        return self._started(work, whole, part, waiting=self._metered(whole.nbytes - part.nbytes))

    def reduce_scatter_single(
        self, part: Tensor, whole: Tensor, options: ReduceScatterOptions | None = None
    ) -> dist.Work:
        """`part` becomes the sum of this rank's part of all ranks' `whole`, in the order of ranks; both flat.

        Raises ValueError for any other reduction.
        """
        if options is not None and options.reduceOp != ReduceOp(ReduceOp.SUM):
            raise ValueError("ranks that share out parameters can only be asked for sums")
        # Gloo's own all-reduces the whole, and gives no future that could be polled.
        received = torch.empty_like(whole)
        work = self._connected().alltoall_base(received, whole, [], [], AllToAllOptions())

        def add() -> None:
            torch.sum(received.view(self.size(), -1), 0, out=part)

        return self._started(work, whole, received, waiting=self._metered(whole.nbytes - part.nbytes), then=add)

    @contextmanager
    def _metered(self, sent: int) -> Iterator[None]:
        began = time.monotonic()
        with self.meter.summing(), self.meter.exposed():
            yield
        traffic = LinkTraffic(raw_bytes=sent, sent_bytes=sent, wire_seconds=time.monotonic() - began)
        self.meter.summed(LaneTraffic(intra=traffic, inter=LinkTraffic()))


def new_group(ranks: Sequence[int], device: torch.device) -> dist.ProcessGroup:
    """Connects the ranks that hold a copy of the model together, all of which call it now: Shards on the CPU, NCCL on
    GPUs.

    Raises RuntimeError when one does not come, or what polling raises.
    """
    return polled.new_group(Shards.backend, _connect, ranks, device)


def _connect(factory: gloo.GlooFactory, store: Store, rank: int, size: int) -> Shards:
    mesh = run_polled(
        lambda _: factory.connect(PrefixStore("mesh", store), rank, size), factory.poll, "ringtrain-connect-shards"
    )
    return Shards(rank, size, mesh, factory.poll)
