"""MPI in this process: it can be entered once, and never be left.

Its ranks are started by Ringtrain's agents, not by mpiexec: they meet at the generation's store. MPI has no way to go
on without a member, so a process that has entered it ends with its generation: see `ringtrain.runtime.run`.
"""

import ctypes
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch._C._distributed_c10d import Store

from ringtrain.comm.address import interface_of
from ringtrain.comm.transport import pmi
from ringtrain.comm.transport.mpi import MpiTransport
from ringtrain.runtime.errors import BadConfiguration, PeersUnreachable

if TYPE_CHECKING:
    from mpi4py import MPI

Mpi = Any
"""The module mpi4py.MPI, which the image may lack."""

_WORLD = "mpi://WORLD"
_THREADS = "MPI_THREAD_MULTIPLE"
_INSTEAD = "or set spec.communication.inter to gloo"


class World:
    """All ranks of one generation. To be kept for ever: what was abandoned may still run in it."""

    def __init__(self, mpi: Mpi, owner: object, session: "MPI.Session", manager: pmi.ProcessManager) -> None:
        self.owner = owner
        self._mpi = mpi
        self._manager = manager
        self._group = session.Create_group(_WORLD)
        self.size: int = self._group.size
        self._transports: list[MpiTransport] = []

    def connect(self, name: str, members: Sequence[int], check: pmi.Check) -> MpiTransport:
        """Joins `members`, who must all be doing the same, by `name`; this rank is one of them. Blocks.

        Raises what `check` raises, and RuntimeError when MPI or the store fails.
        """
        group = self._group.Incl(list(members))
        create, errors = self._mpi.Intracomm.Create_from_group, self._mpi.ERRORS_RETURN
        try:
            # The first one makes libraries exchange addresses.
            communicator = self._manager.serve(lambda: create(group, name, self._mpi.INFO_NULL, errors), check)
        except self._mpi.Exception as error:
            raise RuntimeError(f"MPI failed: {error}") from None
        self._transports.append(MpiTransport(self._mpi, communicator))
        return self._transports[-1]


_entered = False
_world: World | None = None
_sockets: list[socket.socket] = []
"""To the library, which ends the process when they close."""


def entered() -> bool:
    """Whether this process has to end with its generation."""
    return _entered


def load() -> Mpi:
    """The library. Raises BadConfiguration when the image has none that will do."""
    try:
        import mpi4py

        # Ending MPI waits for all members, the lost ones too.
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BadConfiguration(
            f"spec.communication.inter is mpi, but this image has no MPI: {error}. Install ringtrain[mpi] in the image "
            f"(mpi4py 4 or newer, and MPICH or Intel MPI), {_INSTEAD}"
        ) from None
    name = MPI.get_vendor()[0]
    if name == "Open MPI":
        raise BadConfiguration(
            "spec.communication.inter is mpi, but the image's library is Open MPI, whose ranks cannot meet unless its "
            f"own launcher starts them: install MPICH or Intel MPI in the image, {_INSTEAD}"
        )
    if not _entered and MPI.Is_initialized():
        raise BadConfiguration(
            "spec.communication.inter is mpi, but the training code has started MPI before Ringtrain could: let it set "
            f"mpi4py.rc.initialize = False before it imports mpi4py.MPI, {_INSTEAD}"
        )
    return MPI


def enter(owner: object, store: Store, rank: int, size: int, address: str, check: pmi.Check) -> World:
    """Meets all ranks, who must be doing the same, over the interface that has `address`. Blocks.

    `owner` stands for the generation: it is given the same world again. Raises what `check` raises; RuntimeError when
    the store fails; PeersUnreachable when this process was in the world of an earlier generation; BadConfiguration when
    MPI cannot start.
    """
    global _entered, _world
    if _world is not None and _world.owner is owner:
        return _world
    if _entered:
        raise PeersUnreachable("MPI starts only once in a process: this one must be replaced to meet its peers again")
    mpi = load()
    check()
    _configure(address)
    _entered = True
    world = _start(mpi, owner, store, rank, size, check)
    if world.size != size:
        raise BadConfiguration(
            f"MPI started with {world.size} ranks instead of {size}: the image's library does not know PMI-1. Install "
            f"MPICH or Intel MPI in the image, {_INSTEAD}"
        )
    _world = world
    return world


def _configure(address: str) -> None:
    """TCP by libfabric, on the replica's own interface, unless the image or the job say otherwise.

    MPICH's other way, UCX, ends the process when a peer is lost.
    """
    settings = {
        # Replicas are containers: even those on the same machine share no memory.
        "MPIR_CVAR_NOLOCAL": "1",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "I_MPI_FABRICS": "ofi",
        "FI_PROVIDER": "tcp",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    if os.environ["FI_PROVIDER"] == "tcp" and "FI_TCP_IFACE" not in os.environ:
        os.environ["FI_TCP_IFACE"] = interface_of(address)


def _start(mpi: Mpi, owner: object, store: Store, rank: int, size: int, check: pmi.Check) -> World:
    ours, theirs = socket.socketpair()
    _sockets.extend((ours, theirs))
    manager = pmi.ProcessManager(ours, store, size)
    variables = pmi.environment(theirs.fileno(), rank, size)
    os.environ.update(variables)
    session: MPI.Session = mpi.Session()
    code = manager.serve(lambda: _session_init(mpi, session), check)
    for name in variables:
        del os.environ[name]
    if code != mpi.SUCCESS:
        raise BadConfiguration(
            f"spec.communication.inter is mpi, but MPI does not start: {mpi.Get_error_string(code)}. Correct the "
            f"image or the variables FI_* and MPIR_CVAR_* of its environment, {_INSTEAD}"
        )
    level = session.Get_info().Get("thread_level")
    if level != _THREADS:
        raise BadConfiguration(
            f"spec.communication.inter is mpi, but the image's library is built for {level}: install one that is built "
            f"for {_THREADS}, {_INSTEAD}"
        )
    return World(mpi, owner, session, manager)


def _session_init(mpi: Mpi, session: "MPI.Session") -> int:
    """MPI_Session_init without Python's lock, which mpi4py would hold: the process manager is a thread of ours."""
    info = mpi.Info.Create()
    info.Set("thread_level", _THREADS)
    library = ctypes.CDLL(mpi.__file__)
    handle = ctypes.c_int if mpi._sizeof(info) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
    library.MPI_Session_init.argtypes = [handle, handle, ctypes.c_void_p]
    code: int = library.MPI_Session_init(mpi._handleof(info), mpi._handleof(mpi.ERRORS_RETURN), mpi._addressof(session))
    return code
