"""Threads that sum segments of buckets while the training thread computes."""

import queue
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.errors import Abandoned, PeerLost
from ringtrain.comm.fabric import Fabric
from ringtrain.comm.lane import Lane
from ringtrain.comm.meter import Meter
from ringtrain.comm.polling import Poll, wait_polled


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One segment to sum."""

    segment: Tensor
    """It becomes `scale` x the sum over all ranks; nobody else may touch it meanwhile."""
    scale: float
    codec: Codec
    residual: Tensor | None
    keep: float
    """See `Messages`."""
    ready: torch.cuda.Event | None
    """On a GPU: when the segment is complete."""
    sample: bool = False
    """See `Messages`."""


class Ticket:
    """Tasks that were submitted together."""

    def __init__(self, tasks: int) -> None:
        self._missing = tasks
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._failure: Exception | None = None
        if tasks == 0:
            self._ended.set()

    def done(self) -> bool:
        return self._ended.is_set()

    def wait(self, poll: Poll) -> None:
        """Returns once all is summed. Raises what `poll` raises, and what went wrong in the engine."""
        wait_polled(self._ended, poll)
        if self._failure is not None:
            raise self._failure

    def task_ended(self, failure: Exception | None) -> None:
        with self._lock:
            self._missing -= 1
            if self._ended.is_set() or (self._missing > 0 and failure is None):
                return
            self._failure = failure
            self._ended.set()


class Engine:
    """One thread for each lane. A task goes to the lane that was given the fewest values so far, and each lane works in
    the order of submission: so all ranks, which submit the same tasks in the same order, do the same in each lane, in
    whatever order lanes advance.

    After a failure nothing is summed any more: every ticket raises the first one. Lanes are abandoned then, for a lane
    that went on would take a peer's next message for the one that it missed.
    """

    def __init__(self, fabric: Fabric, meter: Meter) -> None:
        """The fabric is the engine's from now on."""
        lanes = tuple(fabric.lanes)
        self._fabric = fabric
        self._meter = meter
        self._queues: list[queue.SimpleQueue[tuple[Task, Ticket] | None]] = [queue.SimpleQueue() for _ in lanes]
        self._given = [0] * len(lanes)
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self._threads = [
            threading.Thread(target=self._work, args=pair, name=f"ringtrain-lane-{index}", daemon=True)
            for index, pair in enumerate(zip(lanes, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, tasks: Sequence[Task]) -> Ticket:
        """Its ticket raises RuntimeError when the engine was closed."""
        ticket = Ticket(len(tasks))
        with self._lock:
            for task in tasks:
                if self._failure is not None:
                    ticket.task_ended(self._failure)
                    continue
                lane = self._given.index(min(self._given))
                self._given[lane] += task.segment.numel()
                self._queues[lane].put((task, ticket))
        return ticket

    def close(self) -> None:
        """What is being summed is lost. Ends all threads, and drops the connections. Never waits for a peer. Harmless
        when done again."""
        self._fail(RuntimeError("this engine was closed: the generation of its group is over"))
        for tasks in self._queues:
            tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._fabric.drop()

    def _fail(self, failure: Exception) -> None:
        with self._lock:
            self._failure = self._failure or failure
        self._fabric.abandon()

    def _work(self, lane: Lane, tasks: "queue.SimpleQueue[tuple[Task, Ticket] | None]") -> None:
        while (item := tasks.get()) is not None:
            task, ticket = item
            if self._failure is None:
                try:
                    self._all_reduce(lane, task)
                except Exception as error:
                    self._fail(_told(error))
            ticket.task_ended(self._failure)

    def _all_reduce(self, lane: Lane, task: Task) -> None:
        messages = Messages(task.codec, task.residual, task.keep, sample=task.sample)
        with self._meter.summing():
            traffic = lane.all_reduce(task.segment, task.scale, messages, task.ready)
        self._meter.summed(traffic)


def _told(error: Exception) -> Exception:
    """As the training thread is told: without the traceback, whose frames would keep connections open."""
    if isinstance(error, PeerLost | Abandoned):
        return PeerLost(str(error) or "the generation was left")
    # A fault of ours: told with all that is known. Want of memory has an exit code of its own.
    kinds = (torch.OutOfMemoryError, MemoryError)
    kind = next((kind for kind in kinds if isinstance(error, kind)), RuntimeError)
    return kind("communication failed:\n" + "".join(traceback.format_exception(error)))
