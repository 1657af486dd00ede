"""Threads that sum segments of buckets while the training thread computes."""

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
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


class Ticket:
    """Tasks that were submitted together."""

    def __init__(self, tasks: int, then: Callable[[Exception | None], None] | None) -> None:
        self._missing = tasks
        self._then = then
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._over = tasks == 0
        if self._over:
            self._end(None)

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
            if self._over or (self._missing > 0 and failure is None):
                return
            self._over, self._failure = True, failure
        self._end(failure)

    def _end(self, failure: Exception | None) -> None:
        if self._then is not None:
            self._then(failure)
        self._ended.set()


class Engine:
    """One thread for each lane. A task goes to the lane that was given the fewest values so far, and each lane works in
    the order of submission: so all ranks, which submit the same tasks in the same order, do the same in each lane, in
    whatever order lanes advance.

    After a failure nothing is summed any more: every ticket raises it.
    """

    def __init__(self, fabric: Fabric, meter: Meter) -> None:
        """The fabric is the engine's from now on."""
        lanes = tuple(fabric.lanes)
        self._fabric = fabric
        self._meter = meter
        self._queues: list[queue.SimpleQueue[tuple[Task, Ticket] | None]] = [queue.SimpleQueue() for _ in lanes]
        self._given = [0] * len(lanes)
        self._failure: Exception | None = None
        self._threads = [
            threading.Thread(target=self._work, args=pair, name=f"ringtrain-lane-{index}", daemon=True)
            for index, pair in enumerate(zip(lanes, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, tasks: Sequence[Task], then: Callable[[Exception | None], None] | None = None) -> Ticket:
        """`then` is called in an engine's thread when all is summed, or with what went wrong."""
        ticket = Ticket(len(tasks), then)
        for task in tasks:
            lane = self._given.index(min(self._given))
            self._given[lane] += task.segment.numel()
            self._queues[lane].put((task, ticket))
        return ticket

    def abandon(self) -> None:
        """What is being summed is lost, and nothing is summed any more. From any thread."""
        self._fabric.abandon()

    def close(self) -> None:
        """Abandons, ends all threads, and drops the connections. Never waits for a peer. Harmless when done again."""
        self.abandon()
        for tasks in self._queues:
            tasks.put(None)
        for thread in self._threads:
            thread.join()
        self._fabric.drop()

    def _work(self, lane: Lane, tasks: "queue.SimpleQueue[tuple[Task, Ticket] | None]") -> None:
        while (item := tasks.get()) is not None:
            task, ticket = item
            if self._failure is None:
                self._failure = self._all_reduce(lane, task)
            ticket.task_ended(self._failure)

    def _all_reduce(self, lane: Lane, task: Task) -> Exception | None:
        """What went wrong: without its traceback, whose frames would keep connections open."""
        began = time.monotonic()
        try:
            messages = Messages(task.codec, task.residual, task.keep)
            traffic = lane.all_reduce(task.segment, task.scale, messages, task.ready)
        except (PeerLost, Abandoned) as error:
            return PeerLost(str(error) or "the generation was left")
        except Exception:  # A fault of ours: told with all that is known.
            return RuntimeError(f"communication failed:\n{traceback.format_exc()}")
        self._meter.summed(traffic, began, time.monotonic())
        return None
