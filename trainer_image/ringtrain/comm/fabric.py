"""The lanes of one generation: connecting them, and letting go of them."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroupGloo

from ringtrain.comm.errors import Abandoned
from ringtrain.comm.gloo import GlooFactory
from ringtrain.comm.intra import Alone, Intra, OverTransport
from ringtrain.comm.lane import Lane
from ringtrain.comm.nccl import Nccl
from ringtrain.comm.topology import Topology
from ringtrain.comm.transport import mpi_world
from ringtrain.comm.transport.gloo import Edges, GlooTransport
from ringtrain.comm.transport.pmi import Check
from ringtrain.comm.transport.transport import Transport
from ringtrain.contract.communication import Algorithm

LANES = 2
"""While one encodes, the other sends."""

Inter = Literal["gloo", "mpi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is connected, the same on all ranks."""

    topology: Topology
    algorithm: Algorithm
    intra: Literal["gloo", "nccl"]
    inter: Inter
    lanes: int = LANES


@dataclass(slots=True)
class Fabric:
    lanes: list[Lane] = field(default_factory=list)
    transports: list[GlooTransport] = field(default_factory=list)
    accelerators: list[Nccl] = field(default_factory=list)

    def abandon(self) -> None:
        """From any thread: all-reduces that run end now, with Abandoned."""
        for lane in self.lanes:
            lane.abandon()

    def drop(self) -> None:
        """After `abandon`, and once no lane is in use."""
        for transport in self.transports:
            transport.drop()
        for accelerator in self.accelerators:
            accelerator.abort()
        self.lanes.clear()
        self.transports.clear()
        self.accelerators.clear()


def connect(
    plan: Plan,
    rank: int,
    world_size: int,
    device: torch.device,
    store: Store,
    factory: GlooFactory,
    abandoned: threading.Event,
) -> Fabric:
    """Meets all ranks of the plan's topology, while all others meet those of theirs: what they have in common is the
    store and MPI. Blocks; may end soon once `abandoned` is set.

    Raises RuntimeError when one does not come; and what `mpi_world.enter` raises.
    """
    fabric = Fabric()
    topology = plan.topology
    neighbors, twins = topology.neighbors(rank), topology.twins(rank)

    check = _check(factory, abandoned)
    world: mpi_world.World | None = None
    if plan.inter == "mpi":
        mpi_world.load()
        if len(topology.machines) > 1:
            world = mpi_world.enter(factory, PrefixStore("mpi", store), rank, world_size, factory.address, check)

    def gloo(name: str, members: Sequence[int]) -> ProcessGroupGloo:
        return _gloo(name, members, rank, store, factory)

    for index in range(plan.lanes):
        intra = _intra(plan, rank, device, store, gloo, f"lane{index}/machine{neighbors[0]}", fabric)
        inter: Transport | None = None
        if len(twins) > 1:
            place = f"lane{index}/twins{twins[0]}"
            if world is not None:
                inter = world.connect(place, twins, check)
            else:
                fabric.transports.append(_over_gloo(plan.algorithm, rank, twins, place, gloo))
                inter = fabric.transports[-1]
        fabric.lanes.append(Lane(intra, inter, plan.algorithm))
    return fabric


def connect_ring(rank: int, members: Sequence[int], store: Store, factory: GlooFactory) -> GlooTransport:
    """Blocks until its neighbors on the ring of `members` do the same. Raises RuntimeError when one does not come."""
    name = f"ring{members[0]}"
    return _over_gloo("ring", rank, members, name, lambda name, ranks: _gloo(name, ranks, rank, store, factory))


def _gloo(name: str, members: Sequence[int], rank: int, store: Store, factory: GlooFactory) -> ProcessGroupGloo:
    return factory.connect(PrefixStore(name, store), members.index(rank), len(members))


def _check(factory: GlooFactory, abandoned: threading.Event) -> Check:
    deadline = time.monotonic() + factory.timeout.total_seconds()

    def check() -> None:
        if abandoned.is_set():
            raise Abandoned
        if time.monotonic() > deadline:
            raise RuntimeError("not all ranks have come to MPI's meeting")

    return check


Connect = Callable[[str, Sequence[int]], ProcessGroupGloo]


def _intra(
    plan: Plan, rank: int, device: torch.device, store: Store, gloo: Connect, name: str, fabric: Fabric
) -> Intra:
    neighbors = plan.topology.neighbors(rank)
    if plan.intra == "nccl":
        accelerator = Nccl(PrefixStore(name, store), neighbors.index(rank), len(neighbors), device)
        fabric.accelerators.append(accelerator)
        return accelerator
    if len(neighbors) == 1:
        return Alone()
    transport = GlooTransport(neighbors.index(rank), len(neighbors), gloo(name, neighbors), None)
    fabric.transports.append(transport)
    return OverTransport(transport)


def _over_gloo(algorithm: Algorithm, rank: int, twins: Sequence[int], name: str, gloo: Connect) -> GlooTransport:
    place, size = twins.index(rank), len(twins)
    if algorithm == "direct":
        return GlooTransport(place, size, gloo(name, twins), None)

    def edge(sender: int) -> ProcessGroupGloo:
        sender %= size
        return gloo(f"{name}/edge{sender}", (twins[sender], twins[(sender + 1) % size]))

    # Around the ring, every edge has one end that asks for it first: no two ranks wait for each other.
    if place % 2 == 0:
        to_next = edge(place)
        return GlooTransport(place, size, None, Edges(to_next, edge(place - 1)))
    from_previous = edge(place - 1)
    return GlooTransport(place, size, None, Edges(edge(place), from_previous))
