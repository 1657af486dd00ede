"""The work queue of keys: each key is worked on by one pass at a time, and waits for no other key's trouble.

After a pass a key rests for a moment: so one pass sees all that happens together, and a key to which things
happen all the time leaves the workers to others. What happens to a key that has rested is looked at at once.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

LEAST_REST = 0.2
LONGEST_REST = 2.0
"""A key rests as long as its pass took, between these bounds."""
FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 60.0
PASS_SECONDS = 120.0
"""A pass that takes longer is given up and counted as an error."""

_logger = logging.getLogger(__name__)


class KeyQueue(Generic[Key]):
    """Which key is next, given the time by the caller in seconds.

    A key is queued once however often it is added. One that is added while it is worked on is queued again after it:
    what was added may be about something that the running pass has not seen.
    """

    def __init__(self) -> None:
        self._ready: dict[Key, None] = {}
        self._running: dict[Key, float] = {}
        """Since when."""
        self._rested: dict[Key, float] = {}
        """When keys that rest may be worked on again."""
        self._again: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._pushed = 0
        self._errors: dict[Key, int] = {}

    def __len__(self) -> int:
        """Keys that wait for a worker."""
        return len(self._ready) + len(self._again)

    def add(self, key: Key, now: float) -> None:
        if key in self._running:
            self._again.add(key)
        elif now < (rested := self._rested.get(key, now)):
            self._schedule(key, min(rested, self._due[key]))
        else:
            self._ready[key] = None

    def take(self, now: float) -> Key | None:
        """The next key, which is worked on from now until `finish` or `fail`; None when none is due."""
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self._ready[key] = None
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        self._due.pop(key, None)
        self._rested.pop(key, None)
        self._running[key] = now
        return key

    def finish(self, key: Key, now: float, requeue_after: float | None) -> None:
        """The pass succeeded; the next is due in `requeue_after` seconds, None: when the key is added."""
        self._errors.pop(key, None)
        self._end(key, now, requeue_after)

    def fail(self, key: Key, now: float) -> float:
        """The pass failed. Returns the seconds until the next, doubled with each failure in a row."""
        errors = self._errors[key] = self._errors.get(key, 0) + 1
        # The exponent is bounded so that years of failures raise no OverflowError.
        backoff = min(FIRST_BACKOFF * 2.0 ** min(errors - 1, 30), LONGEST_BACKOFF)
        self._end(key, now, backoff)
        return backoff

    def next_due(self) -> float | None:
        """When `take` may give a key although none is added before."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _end(self, key: Key, now: float, delay: float | None) -> None:
        rest = min(max(now - self._running.pop(key), LEAST_REST), LONGEST_REST)
        again = key in self._again
        self._again.discard(key)
        if delay is not None:
            self._rested[key] = now + rest
            self._schedule(key, now + (min(rest, delay) if again else delay))
        elif again:
            self._ready[key] = None

    def _schedule(self, key: Key, due: float) -> None:
        if self._due.get(key) != due:
            self._due[key] = due
            self._pushed += 1
            heapq.heappush(self._heap, (due, self._pushed, key))


class Workers(Generic[Key]):
    """Runs passes for the keys of a queue, at most `concurrency` at once."""

    def __init__(self, work: Callable[[Key], Awaitable[float | None]], concurrency: int) -> None:
        """`work` makes one pass and returns the seconds until the next, or raises: then it is tried again later."""
        self._work = work
        self._concurrency = concurrency
        self._queue = KeyQueue[Key]()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, key: Key) -> None:
        """Inside the event loop that runs it."""
        self._queue.add(key, asyncio.get_running_loop().time())
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled; passes that run then are cancelled too."""
        clock = asyncio.get_running_loop().time
        slots = asyncio.Semaphore(self._concurrency)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                while (key := self._queue.take(clock())) is None:
                    await self._wait()
                group.create_task(self._pass(key, clock)).add_done_callback(lambda _: slots.release())

    async def _wait(self) -> None:
        due = self._queue.next_due()
        self._wake.clear()
        try:
            async with asyncio.timeout_at(due):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _pass(self, key: Key, clock: Callable[[], float]) -> None:
        try:
            async with asyncio.timeout(PASS_SECONDS):
                requeue_after = await self._work(key)
        except Exception as error:
            backoff = self._queue.fail(key, clock())
            _logger.warning("%s: %s; trying again in %.1f s", key, error or repr(error), backoff)
        else:
            self._queue.finish(key, clock(), requeue_after)
        self._wake.set()
