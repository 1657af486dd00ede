"""MPI's operations as a transport: on a thread of its own, for a call into MPI may never return once a peer is lost."""

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ringtrain.comm.errors import Abandoned, PeerLost

if TYPE_CHECKING:
    from mpi4py import MPI

_SHORTEST_PAUSE = 20e-6
_LONGEST_PAUSE = 500e-6
_GROWTH = 1.5


class MpiTransport:
    """The members of `communicator`, of which nobody else makes use. `mpi` is the module mpi4py.MPI.

    Operations run one after the other. To be kept for ever: what was abandoned may still write into its tensors.
    """

    def __init__(self, mpi: Any, communicator: "MPI.Intracomm") -> None:
        self.rank = communicator.rank
        self.size = communicator.size
        self._mpi = mpi
        self._communicator = communicator
        self._lock = threading.Lock()
        self._abandoned = False
        self._running: set[_Started] = set()
        self._queue: queue.SimpleQueue[_Started | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="ringtrain-mpi", daemon=True).start()

    def shift(self, send: Tensor, receive: Tensor) -> "_Started":
        source, target = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        into, out = receive.numpy(), send.numpy()
        return self._start(lambda: [self._communicator.Irecv(into, source), self._communicator.Isend(out, target)])

    def all_to_all(self, send: Tensor, receive: Tensor) -> "_Started":
        into, out = receive.numpy(), send.numpy()
        return self._start(lambda: [self._communicator.Ialltoall(out, into)])

    def all_gather(self, send: Tensor, receive: Tensor) -> "_Started":
        into, out = receive.numpy(), send.numpy()
        return self._start(lambda: [self._communicator.Iallgather(out, into)])

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            for started in self._running:
                started.over.set()
        self._queue.put(None)

    def ended(self, started: "_Started") -> None:
        """Raises Abandoned when the transport was abandoned."""
        with self._lock:
            if self._abandoned:
                raise Abandoned
            self._running.discard(started)

    def _start(self, begin: "Callable[[], list[MPI.Request]]") -> "_Started":
        started = _Started(self, begin)
        with self._lock:
            self._running.add(started)
            if self._abandoned:
                started.over.set()
        self._queue.put(started)
        return started

    def _work(self) -> None:
        while (started := self._queue.get()) is not None and not self._abandoned:
            try:
                # Kept with what is running: MPI needs the tensors for as long as they exist.
                started.requests = started.begin()
                self._finish(started.requests)
            except self._mpi.Exception as error:
                started.failure = PeerLost(f"MPI between machines failed: {error}")
            except Exception as error:  # A fault of ours: raised where it is waited for.
                started.failure = error
            started.over.set()

    def _finish(self, requests: "list[MPI.Request]") -> None:
        """Returns once they have ended, or for abandoned ones soon."""
        pause = _SHORTEST_PAUSE
        while not all(request.Test() for request in requests) and not self._abandoned:
            time.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


class _Started:
    """An operation; `begin` starts its requests."""

    def __init__(self, transport: MpiTransport, begin: "Callable[[], list[MPI.Request]]") -> None:
        self._transport = transport
        self.begin = begin
        self.requests: list[MPI.Request] = []
        self.over = threading.Event()
        self.failure: Exception | None = None

    def wait(self) -> None:
        self.over.wait()
        self._transport.ended(self)
        if self.failure is not None:
            raise self.failure
