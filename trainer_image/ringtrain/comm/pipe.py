"""The ranks of one pipeline, for torch.distributed.pipelining."""

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import BroadcastOptions, PrefixStore, Store

from ringtrain.comm import gloo, polled
from ringtrain.comm.polled import Gloo, PolledGroup
from ringtrain.comm.polling import Poll, run_polled


class Pipe(PolledGroup):
    """Sends to and receives from the neighbors on the ring of a pipeline's ranks, and gathers among all of them.

    An edge is a Gloo group of two, a message a broadcast in it, for Gloo's send and receive can be neither polled nor
    left. Messages of an edge arrive in the order in which they were sent, whatever their tags.
    """

    backend = "ringtrain_pipe"

    def __init__(self, rank: int, size: int, mesh: Gloo, edges: dict[tuple[int, int], Gloo], poll: Poll) -> None:
        super().__init__(rank, size, mesh, poll)
        self._edges = edges

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> dist.Work:  # noqa: ARG002
        return self._move(self.rank(), dst, tensors)

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> dist.Work:  # noqa: ARG002
        return self._move(src, self.rank(), tensors)

    def release(self) -> tuple[list[dist.Work], list[object]]:
        works, references = super().release()
        references += self._edges.values()
        self._edges.clear()
        return works, references

    def _move(self, src: int, dst: int, tensors: list[Tensor]) -> dist.Work:
        if (src, dst) not in self._edges:
            raise ValueError(f"ranks {src} and {dst} of the pipeline are no neighbors")
        options = BroadcastOptions()
        options.rootRank = options.rootTensor = 0
        return self._started(self._edges[src, dst].broadcast(tensors, options), *tensors)


def new_group(ranks: Sequence[int], device: torch.device) -> dist.ProcessGroup:
    """Connects the ranks of one pipeline, all of which call it now: a Pipe on the CPU, NCCL on GPUs.

    Raises RuntimeError when one does not come, or what polling raises.
    """
    return polled.new_group(Pipe.backend, _connect, ranks, device)


def _connect(factory: gloo.GlooFactory, store: Store, rank: int, size: int) -> Pipe:
    def groups() -> tuple[Gloo, dict[tuple[int, int], Gloo]]:
        mesh = factory.connect(PrefixStore("mesh", store), rank, size)
        edges = {
            edge: factory.connect(PrefixStore(f"edge{edge[0]}-{edge[1]}", store), edge.index(rank), 2)
            for edge in ring_edges(size)
            if rank in edge
        }
        return mesh, edges

    mesh, edges = run_polled(lambda _: groups(), factory.poll, "ringtrain-connect-pipe")
    return Pipe(rank, size, mesh, edges, factory.poll)


def ring_edges(size: int) -> Iterator[tuple[int, int]]:
    """(sender, receiver), in an order in which ranks that connect one by one never wait for each other in a circle."""
    edges = {(a, b) for first in range(size) for a, b in ((first, (first + 1) % size), ((first + 1) % size, first))}
    # By their lower rank: whoever waits, waits for a rank that is at a lesser edge, and there is a least one.
    yield from sorted(edges, key=lambda edge: (min(edge), max(edge), edge))
