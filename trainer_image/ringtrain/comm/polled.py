"""Process groups for torch's own model parallelism, whose waits poll.

torch's pipelines and FSDP2 wait for their collectives on the training thread. With Gloo alone such a wait can be
neither polled nor left: a lost rank would hold all others, and their heartbeats would stop.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, Store

from ringtrain.comm import gloo
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.polling import Poll, wait_polled

Gloo = Any
"""torch.distributed.ProcessGroupGloo, of whose collectives torch's stubs know nothing."""


class PolledGroup(dist.ProcessGroup):
    """The ranks that hold one copy of the model together, on the CPU."""

    backend: str

    def __init__(self, rank: int, size: int, mesh: Gloo, poll: Poll) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._mesh: Gloo | None = mesh
        self._poll = poll
        self._pending: set[PolledWork] = set()

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return self.backend

    def _set_group_name(self, name: str) -> None:
        # torch keeps it in a C++ backend, of which this group has none.
        self._name = name

    @property
    def group_name(self) -> str:  # type: ignore[override]
        return self._name

    def allgather(  # type: ignore[override]
        self, outputs: list[list[Tensor]], inputs: list[Tensor], options: AllgatherOptions | None = None
    ) -> dist.Work:
        work = self._connected().allgather(outputs, inputs, options or AllgatherOptions())
        return self._started(work, *inputs, *outputs[0])

    def release(self) -> tuple[list[dist.Work], list[object]]:
        """Lets go of (works, all else that keeps connections open), and returns them; the group is of no use then."""
        works: list[dist.Work] = []
        references: list[object] = [self._mesh]
        for pending in self._pending:
            work, tensors = pending.release()
            works += [work] if work is not None else []
            references += tensors
        self._mesh = None
        self._pending.clear()
        return works, references

    def _connected(self) -> Gloo:
        """Gloo among all ranks."""
        if self._mesh is None:
            raise RuntimeError("this group was released: its generation is over")
        return self._mesh

    def _started(
        self,
        work: dist.Work,
        *tensors: Tensor,
        waiting: AbstractContextManager[object] | None = None,
        then: Callable[[], object] | None = None,
    ) -> dist.Work:
        started = PolledWork(work, tensors, self._poll, self._pending, waiting or nullcontext(), then)
        self._pending.add(started)
        return started


class PolledWork(dist.Work):
    """A started operation. Its wait raises what polling does, and PeerLost when the operation failed."""

    def __init__(
        self,
        work: dist.Work,
        tensors: tuple[Tensor, ...],
        poll: Poll,
        pending: set["PolledWork"],
        waiting: AbstractContextManager[object],
        then: Callable[[], object] | None,
    ) -> None:
        """`waiting` is around the wait; `then` is done once it succeeded."""
        super().__init__()
        self._work: dist.Work | None = work
        self._tensors: list[Tensor] = list(tensors)
        self._poll = poll
        self._pending = pending
        self._waiting = waiting
        self._then = then
        self._ended = ended = threading.Event()
        work.get_future().then(lambda _: ended.set())

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002 - the group's own bounds it
        with self._waiting:
            wait_polled(self._ended, self._poll)
        self._pending.discard(self)
        then = self._then
        work, _ = self.release()
        failure = ""
        try:
            if work is not None:
                work.wait()
        except RuntimeError as error:
            failure = str(error)
        if failure:
            raise PeerLost(f"a rank with another part of the model is lost: {failure}")
        if then is not None:
            then()
        return True

    def release(self) -> tuple[dist.Work | None, list[Tensor]]:
        """Lets go of torch's objects and returns them."""
        released = self._work, self._tensors
        self._work, self._tensors, self._then = None, [], None
        return released


def gather(tensor: Tensor, group: dist.ProcessGroup) -> list[Tensor]:
    """Each rank's `tensor`, by rank, all of one shape and dtype. Raises PeerLost, or what polling raises."""
    gathered = [torch.empty_like(tensor) for _ in range(group.size())]
    work = dist.all_gather(gathered, tensor, group=group, async_op=True)
    assert work is not None  # This rank is a member.
    work.wait()
    return gathered


Connect = Callable[[gloo.GlooFactory, Store, int, int], PolledGroup]
"""(factory, store, rank, size) -> the group, of which all ranks do the same now."""


def new_group(backend: str, connect: Connect, ranks: Sequence[int], device: torch.device) -> dist.ProcessGroup:
    """Connects `ranks`, all of which call it now: by `connect`, as torch's `backend`, on the CPU; by NCCL on GPUs.

    Raises RuntimeError when one does not come, or what polling raises.
    """

    def create(options: Any, _backend_options: object) -> PolledGroup:
        return connect(gloo.in_use(), options.store, options.group_rank, options.group_size)

    if backend not in dist.Backend.backend_list:
        dist.Backend.register_backend(backend, create, extended_api=True, devices=["cpu"])
    group = dist.new_group(
        list(ranks), backend="nccl" if device.type == "cuda" else backend, use_local_synchronization=True
    )
    assert isinstance(group, dist.ProcessGroup)
    return group
