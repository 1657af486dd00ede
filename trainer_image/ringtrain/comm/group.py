"""The group of one generation: collectives that are started, polled, and left when the membership breaks."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import AllgatherOptions, PrefixStore, Store
from torch.distributed import ReduceOp

from ringtrain.comm import gloo, pipe, reaper, shards
from ringtrain.comm.engine import Engine
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.fabric import Plan, connect, connect_ring
from ringtrain.comm.meter import Meter
from ringtrain.comm.polled import PolledGroup
from ringtrain.comm.polling import Poll, poll_until, run_polled
from ringtrain.comm.topology import Topology
from ringtrain.comm.transport.gloo import GlooTransport
from ringtrain.contract.mesh import Mesh

_ABORT_SECONDS = 30.0


class Collective:
    """A started collective. Its tensor belongs to it until `Group.wait` returned, and for ever if that never does."""

    __slots__ = ("_tensors", "_work")

    def __init__(self, work: dist.Work, *tensors: Tensor) -> None:
        self._work: dist.Work | None = work
        self._tensors = tensors

    def done(self) -> bool:
        """Whether waiting would return at once, with success or not."""
        return self._work is None or self._work.is_completed()

    def complete(self) -> None:
        """Makes the result visible to the current stream. Raises PeerLost when the collective failed."""
        failure = "its group was destroyed"
        if self._work is not None:
            try:
                self._work.wait()
                return
            except RuntimeError as error:
                failure = str(error)
            finally:
                self.release()
        raise PeerLost(f"a collective failed: {failure}")

    def release(self) -> tuple[dist.Work | None, tuple[Tensor, ...]]:
        """Lets go of torch's objects and returns them: they keep connections open as long as anything holds them."""
        released = self._work, self._tensors
        self._work, self._tensors = None, ()
        return released


class Group:
    """All ranks of one generation. Also torch.distributed's default group, so meshes and pipelines find it.

    Every rank must start the same collectives in the same order. Each wait polls; what `poll` raises ends the wait, and
    then the group must be destroyed. Raises PeerLost when a collective fails by itself.
    """

    def __init__(
        self, factory: gloo.GlooFactory, store: Store, device: torch.device, processes: int, mesh: Mesh
    ) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.mesh = mesh
        self.topology = Topology.of(mesh.twins(self.rank), processes)
        """Of the ranks that hold the same part of the model: those whose gradients are summed."""
        self.device = device
        """Where gradients live and are reduced: by Gloo on cpu, by NCCL on cuda."""
        self.backend: Literal["gloo", "nccl"] = "nccl" if device.type == "cuda" else "gloo"
        self.poll = factory.poll
        self._factory = factory
        self._store = store
        self._engines: list[Engine] = []
        self._rings: list[GlooTransport] = []
        self._process_group = dist.group.WORLD
        self._copy: dist.ProcessGroup | None = None
        self._pending: set[Collective] = set()

    def start_engine(self, plan: Plan, meter: Meter) -> Engine:
        """Connects lanes, while all ranks do, and starts an engine on them; it ends with the group.

        Raises PeerLost when some rank does not come, or what polling raises.
        """
        self._alive()
        store = PrefixStore(f"engine{len(self._engines)}", self._store)
        failure = ""
        try:
            fabric = run_polled(
                lambda abandoned: connect(plan, self.rank, self.size, self.device, store, self._factory, abandoned),
                self.poll,
                "ringtrain-connect-lanes",
            )
        except RuntimeError as error:
            failure = str(error)
        if failure:
            raise PeerLost(f"lanes between {self.size} ranks did not connect: {failure}")
        self._engines.append(Engine(fabric, meter))
        return self._engines[-1]

    def ring(self, members: Sequence[int]) -> GlooTransport:
        """Connects these ranks, this one among them, for `shift` alone, while all other ranks connect theirs.

        It ends with the group. Raises PeerLost when some rank does not come, or what polling raises.
        """
        self._alive()
        store = PrefixStore(f"ring{len(self._rings)}", self._store)
        failure = ""
        try:
            transport = run_polled(
                lambda _: connect_ring(self.rank, members, store, self._factory), self.poll, "ringtrain-connect-ring"
            )
        except RuntimeError as error:
            failure = str(error)
        if failure:
            raise PeerLost(f"ranks {list(members)} did not connect: {failure}")
        self._rings.append(transport)
        return transport

    def pair(self, peer: int, poll: Poll) -> Any:
        """Connects this rank and `peer`, which does the same now, for `gather_of_pair`; it ends with the group.

        Raises PeerLost when it does not come, or what `poll` raises.
        """
        self._alive()
        first, second = sorted((self.rank, peer))
        store, failure = PrefixStore(f"pair{first}-{second}", self._store), ""
        try:
            pair = run_polled(
                lambda _: self._factory.connect(store, int(self.rank == second), 2), poll, "ringtrain-connect-pair"
            )
        except RuntimeError as error:
            failure = str(error)
        if failure:
            raise PeerLost(f"rank {peer} did not connect: {failure}")
        self._factory.made.append(pair)
        return pair

    def gather_of_pair(self, pair: Any, tensor: Tensor, poll: Poll) -> list[Tensor]:
        """Each one's `tensor` on the CPU, the lower rank's first. Raises PeerLost when it failed, or what `poll` does:
        then it goes on until the group is destroyed."""
        gathered = [torch.empty_like(tensor) for _ in range(2)]
        started = self._started(pair.allgather([gathered], [tensor], AllgatherOptions()), tensor, *gathered)
        self._wait(started, poll)
        return gathered

    def pipe(self) -> dist.ProcessGroup:
        """This rank's pipeline, for torch.distributed.pipelining. At its first call, all of its ranks connect.

        Raises PeerLost when one does not come, or what polling raises.
        """
        return self._connected(pipe.new_group)

    def shards(self) -> dist.ProcessGroup:
        """The ranks that share out parameters with this one, for FSDP2. At its first call, all of them connect.

        Raises PeerLost when one does not come, or what polling raises.
        """
        return self._connected(shards.new_group)

    def _connected(self, connect: Callable[[Sequence[int], torch.device], dist.ProcessGroup]) -> dist.ProcessGroup:
        self._alive()
        ranks, failure = self.mesh.copy_ranks(self.rank), ""
        if self._copy is None:
            try:
                self._copy = connect(ranks, self.device)
            except RuntimeError as error:
                failure = str(error)
        if self._copy is None:
            raise PeerLost(f"ranks {ranks}, which hold a copy of the model together, did not connect: {failure}")
        return self._copy

    def start_all_reduce(self, tensor: Tensor, op: Any = ReduceOp.SUM) -> Collective:
        """Starts to reduce `tensor`, any shape, in place over all ranks."""
        return self._started(dist.all_reduce(tensor, op, group=self._alive(), async_op=True), tensor)

    def all_reduce(self, tensor: Tensor, op: Any = ReduceOp.SUM) -> None:
        """Reduces `tensor`, any shape, in place over all ranks."""
        self.wait(self.start_all_reduce(tensor, op))

    def broadcast(self, tensor: Tensor, src: int) -> None:
        """Overwrites `tensor`, any shape, in place by that of rank `src`."""
        self.wait(self._started(dist.broadcast(tensor, src, group=self._alive(), async_op=True), tensor))

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Each rank's `tensor`, by rank; shape and dtype must be the same everywhere."""
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        work = dist.all_gather(gathered, tensor, group=self._alive(), async_op=True)
        self.wait(self._started(work, tensor, *gathered))
        return gathered

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """Each rank's `data`, by rank; the lengths may differ."""
        lengths = [int(length) for length in self.all_gather(torch.tensor([len(data)]))]
        padded = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        padded[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else padded[:0]
        rows = self.all_gather(padded)
        return [row[:length].numpy().tobytes() for row, length in zip(rows, lengths, strict=True)]

    def all_gather_json(self, value: Any) -> list[Any]:
        """Each rank's `value`, by rank: whatever JSON can say. Nothing is unpickled."""
        return [json.loads(data) for data in self.all_gather_bytes(json.dumps(value).encode())]

    def every(self, own: bool) -> bool:
        """Whether it is true on all ranks."""
        everywhere = torch.tensor(int(own))
        self.all_reduce(everywhere, ReduceOp.MIN)
        return bool(everywhere)

    def barrier(self) -> None:
        """Returns once all ranks are here."""
        self.all_reduce(torch.zeros(1))

    def wait(self, collective: Collective) -> None:
        """Returns once `collective` succeeded. Raises PeerLost when it failed, or what `poll` raises."""
        self._wait(collective, self.poll)

    def _wait(self, collective: Collective, poll: Poll) -> None:
        poll_until(collective.done, poll)
        self._pending.discard(collective)
        collective.complete()

    @property
    def destroyed(self) -> bool:
        return self._process_group is None

    def destroy(self) -> None:
        """Leaves the group; never waits for a peer. Collectives still running are abandoned: so are their tensors.

        Raises PeerLost when NCCL does not let go of the GPU; then only ending the process helps.
        """
        if self._process_group is None:
            return
        for engine in self._engines:
            engine.close()
        self._engines.clear()
        for ring in self._rings:
            ring.abandon()
            ring.drop()
        self._rings.clear()
        works: list[dist.Work] = []
        references: list[object] = [self._process_group, *self._factory.made]
        for collective in self._pending:
            work, tensors = collective.release()
            works += [work] if work is not None else []
            references += tensors
        if isinstance(self._copy, PolledGroup):
            copy_works, copy_references = self._copy.release()
            works += copy_works
            references += copy_references
        self._process_group = self._copy = None
        self._pending.clear()
        self._factory.made.clear()
        if self.backend == "nccl":
            _abort_nccl()
        dist.destroy_process_group()
        gloo.use(None)
        reaper.drop(works, references)

    def _started(self, work: dist.Work | None, *tensors: Tensor) -> Collective:
        assert work is not None  # All ranks are members.
        collective = Collective(work, *tensors)
        self._pending.add(collective)
        return collective

    def _alive(self) -> dist.ProcessGroup:
        if self._process_group is None:
            raise RuntimeError("this group was destroyed: its generation is over")
        return self._process_group


def _abort_nccl() -> None:
    world = dist.group.WORLD
    assert world is not None
    deadline = time.monotonic() + _ABORT_SECONDS

    def give_up() -> None:
        if time.monotonic() > deadline:
            raise PeerLost(f"NCCL did not abort within {_ABORT_SECONDS:g} s: this process must be replaced")

    run_polled(lambda _: world._get_backend(torch.device("cuda")).abort(), give_up, "ringtrain-abort-nccl")
