"""Meeting all members of a generation, and connecting to them."""

import atexit
import sys
import threading
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store

from ringtrain.comm import gloo
from ringtrain.comm.address import own_address
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.group import Group
from ringtrain.comm.polling import Poll, run_polled
from ringtrain.comm.rendezvous import Attempt
from ringtrain.contract.mesh import Mesh

_ADDRESS_SECONDS = 30.0

_current: Group | None = None


def form_group(
    rank: int,
    world_size: int,
    store_host: str,
    store_port: int,
    generation: str,
    device: Literal["cuda", "cpu"],
    address: str,
    timeout: timedelta,
    poll: Poll,
    processes: int = 1,
    mesh: Mesh | None = None,
) -> Group:
    """Meets all members of `generation` at the store and connects to them from `address`, this replica's own.

    `address` is a host name or an IP address. Each replica has `processes` ranks; `mesh` is data parallel alone when
    absent. `timeout` bounds the forming and every collective; it can be long, since broken memberships are noticed by
    `poll`, not by it. On cuda, the current device must be set. Raises what `poll` raises, and PeerLost when not all
    members are there in time; RuntimeError when the former group was not destroyed.
    """
    global _current
    if _current is not None and not _current.destroyed:
        raise RuntimeError("destroy the former generation's group before forming another")

    def connect(abandoned: threading.Event) -> tuple[gloo.GlooFactory, Store]:
        attempt = Attempt(generation, rank, world_size, timeout, abandoned)
        factory = gloo.GlooFactory(own_address(address, _ADDRESS_SECONDS), timeout, poll)
        store = attempt.connect(store_host, store_port)
        attempt.meet(store)
        factory.made.append(factory.connect(store, rank, world_size))
        return factory, store

    failure = ""
    try:
        factory, store = run_polled(connect, poll, "ringtrain-connect")
    except (RuntimeError, OSError) as error:
        failure = str(error)
    if failure:
        raise PeerLost(f"generation {generation} did not form: {failure}")

    _register(factory, store, rank, world_size, device)
    target = torch.device("cuda", torch.cuda.current_device()) if device == "cuda" else torch.device("cpu")
    _current = Group(factory, store, target, processes, mesh or Mesh(data=world_size))
    if device == "cuda":
        _connect_nccl(_current)
    return _current


def _register(factory: gloo.GlooFactory, store: Store, rank: int, world_size: int, device: str) -> None:
    """Makes the connected group torch.distributed's default one."""
    gloo.use(factory)
    hook = sys.excepthook  # torch wraps it at every call, so tracebacks would name the rank once per generation.
    dist.init_process_group(
        gloo.BACKEND if device == "cpu" else f"cpu:{gloo.BACKEND},cuda:nccl",
        store=store,
        rank=rank,
        world_size=world_size,
        timeout=factory.timeout,
    )
    sys.excepthook = hook


def _connect_nccl(group: Group) -> None:
    """NCCL connects in its first collective, which blocks: so it is a tiny one, on a thread that can be left."""

    def first(_: threading.Event) -> None:
        torch.cuda.set_device(group.device)
        dist.all_reduce(torch.zeros(1, device=group.device))
        torch.cuda.synchronize(group.device)

    try:
        run_polled(first, group.poll, "ringtrain-connect-nccl")
    except BaseException:
        group.destroy()
        raise


@atexit.register
def _destroy_at_exit() -> None:
    if _current is not None:
        _current.destroy()
