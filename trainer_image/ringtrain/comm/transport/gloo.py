"""Gloo's collectives as a transport: each is one that can be waited for and left.

Gloo's send and receive can be neither polled nor left, so a hop of the ring is two broadcasts, in groups of two.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, AllToAllOptions, BroadcastOptions

from ringtrain.comm import reaper
from ringtrain.comm.errors import Abandoned, PeerLost

Gloo = Any
"""torch.distributed.ProcessGroupGloo, of whose collectives torch's stubs know nothing."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Connections along the ring; of each two, the sender is member 0."""

    to_next: Gloo
    from_previous: Gloo


class GlooTransport:
    """`mesh` joins all members, `edges` neighbors on the ring; each serves its own operations."""

    def __init__(self, rank: int, size: int, mesh: Gloo | None, edges: Edges | None) -> None:
        self.rank = rank
        self.size = size
        self._mesh = mesh
        self._edges = edges
        self._lock = threading.Lock()
        self._abandoned = False
        self._running: dict[_Started, object] = {}

    def shift(self, send: Tensor, receive: Tensor) -> "_Started":
        edges = self._edges
        assert edges is not None
        works = [_along(edges.to_next, send), _along(edges.from_previous, receive)]
        return self._started(works, send, receive)

    def to_next(self, tensor: Tensor) -> "_Started":
        """One half of `shift`, for tensors of other lengths than those of other members. uint8, not empty."""
        assert self._edges is not None
        return self._started([_along(self._edges.to_next, tensor)], tensor)

    def from_previous(self, tensor: Tensor) -> "_Started":
        """The other half: `tensor` is as long as what the member before sends."""
        assert self._edges is not None
        return self._started([_along(self._edges.from_previous, tensor)], tensor)

    def all_to_all(self, send: Tensor, receive: Tensor) -> "_Started":
        assert self._mesh is not None
        return self._started([self._mesh.alltoall_base(receive, send, [], [], AllToAllOptions())], send, receive)

    def all_gather(self, send: Tensor, receive: Tensor) -> "_Started":
        assert self._mesh is not None
        return self._started([self._mesh._allgather_base(receive, send, AllgatherOptions())], send, receive)

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            for started in self._running:
                started.wake()

    def drop(self) -> None:
        """After `abandon`, and once nothing uses it: connections end as soon as what runs on them has ended."""
        groups: list[Any] = [self._mesh]
        groups += [self._edges.to_next, self._edges.from_previous] if self._edges else []
        self._mesh = self._edges = None
        works, references = [], groups
        for started in self._running:
            started_works, tensors = started.release()
            works += started_works
            references += tensors
        self._running.clear()
        reaper.drop(works, references)

    def _started(self, works: list[Any], *tensors: Tensor) -> "_Started":
        started = _Started(self, works, tensors)
        with self._lock:
            self._running[started] = None
            if self._abandoned:
                started.wake()
        return started

    def ended(self, started: "_Started") -> None:
        """Raises Abandoned when the transport was abandoned: then `started` is kept, for it may still run."""
        with self._lock:
            if self._abandoned:
                raise Abandoned
            self._running.pop(started)


def _along(edge: Gloo, tensor: Tensor) -> dist.Work:
    options = BroadcastOptions()
    options.rootRank = options.rootTensor = 0
    return edge.broadcast([tensor], options)  # type: ignore[no-any-return]


class _Started:
    """Works that were started together."""

    def __init__(self, transport: GlooTransport, works: list[dist.Work], tensors: Sequence[Tensor]) -> None:
        self._transport = transport
        self._works = works
        self._tensors = list(tensors)
        self._events = [threading.Event() for _ in works]
        for work, event in zip(works, self._events, strict=True):
            work.get_future().then(lambda _, event=event: event.set())  # type: ignore[misc]

    def wait(self) -> None:
        for event in self._events:
            event.wait()
        self._transport.ended(self)
        works, _ = self.release()
        failure = ""
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                failure = str(error)
        if failure:
            raise PeerLost(f"a collective between machines failed: {failure}")

    def wake(self) -> None:
        for event in self._events:
            event.set()

    def release(self) -> tuple[list[dist.Work], list[Tensor]]:
        """Lets go of torch's objects and returns them."""
        released = self._works, self._tensors
        self._works, self._tensors = [], []
        return released
