"""The logs of a job's pods as one stream that goes on with the pods that replace others.

Kubernetes deletes a pod's log with the pod: what a replaced pod said is told only to those who followed it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge

from ringtrain_operator.api.reserved import CONTAINER
from ringtrain_operator.client.log_line import LogLine
from ringtrain_operator.client.pods import has_log, is_running
from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.plan.observed import Pod

LOOK_SECONDS = 1.0
"""Between two looks for pods that are new."""
_QUEUED = 1000
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_GONE = frozenset({400, 404})
"""The container was never started, or the pod is gone."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look at a job found."""

    pods: tuple[Pod, ...]
    over: bool
    """No pod will come any more."""


@dataclass(slots=True)
class _Reading:
    task: asyncio.Task[None] | None = None
    seen: datetime = _BEGINNING
    """Time of the last line."""
    done: bool = False

    def is_at_end(self, pod_exists: bool) -> bool:
        """Whether nothing more can come: of a pod that is gone, nobody tries again."""
        return self.done or (not pod_exists and (self.task is None or self.task.done()))


class PodLogs:
    """Reads logs of the pods of one namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    async def so_far(self, pods: tuple[Pod, ...], tail: int | None) -> AsyncGenerator[LogLine, None]:
        """What all of them have said, in the order of time. Raises ApiError."""
        logs = await asyncio.gather(*(self._whole(pod, tail) for pod in pods if has_log(pod)))
        for line in merge(*logs, key=lambda line: line.time or _BEGINNING):
            yield line

    async def follow(self, look: Callable[[], Awaitable[Sight]], tail: int | None) -> AsyncGenerator[LogLine, None]:
        """Lines as they come, of pods that are there and of those that come later, until the job is over. `tail`
        holds for the pods that are there at first. Raises what `look` raises. Close it (`contextlib.aclosing`)."""
        queue: asyncio.Queue[LogLine] = asyncio.Queue(_QUEUED)
        readings: dict[str, _Reading] = {}
        try:
            over = False
            while not over:
                sight = await look()
                for pod in filter(has_log, sight.pods):
                    reading = readings.setdefault(pod.uid, _Reading())
                    if not reading.done and (reading.task is None or reading.task.done()):
                        reading.task = asyncio.create_task(self._read(pod, reading, queue, tail))
                tail = None
                next_look = asyncio.get_running_loop().time() + LOOK_SECONDS
                while (line := await _next(queue, next_look)) is not None:
                    yield line
                there = {pod.uid for pod in sight.pods}
                over = sight.over and all(reading.is_at_end(uid in there) for uid, reading in readings.items())
        finally:
            tasks = [reading.task for reading in readings.values() if reading.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, pod: Pod, reading: _Reading, queue: asyncio.Queue[LogLine], tail: int | None) -> None:
        """Until its log ends, or its connection; then the next look starts it again where it was."""
        try:
            async for line in self._lines(pod, tail, reading.seen, follow=True):
                reading.seen = line.time or reading.seen
                await queue.put(line)
            reading.done = not is_running(pod)
        except ApiError as error:
            reading.done = error.status in _GONE and not is_running(pod)

    async def _whole(self, pod: Pod, tail: int | None) -> list[LogLine]:
        try:
            return [line async for line in self._lines(pod, tail, _BEGINNING, follow=False)]
        except ApiError as error:
            if error.status in _GONE:
                return []
            raise

    async def _lines(
        self, pod: Pod, tail: int | None, after: datetime, *, follow: bool
    ) -> AsyncGenerator[LogLine, None]:
        query = {"container": CONTAINER, "timestamps": "true", "follow": str(follow).lower()}
        if after is not _BEGINNING:
            query["sinceTime"] = after.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        elif tail is not None:
            query["tailLines"] = str(tail)
        async for raw in self._api.lines(f"{self._pods}/{pod.name}/log", query):
            line = log_line(pod, raw)
            # The API knows whole seconds only.
            if line is not None and line.time is not None and line.time > after:
                yield line


async def _next(queue: asyncio.Queue[LogLine], until: float) -> LogLine | None:
    """None when none came until then."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            return await queue.get()
    return None


def log_line(pod: Pod, raw: bytes) -> LogLine | None:
    """From `TIME TEXT`; None of what has no time: the kubelet says that, of logs that are gone."""
    stamp, _, text = raw.decode(errors="replace").partition(" ")
    try:
        return LogLine(pod.index, pod.name, datetime.fromisoformat(stamp), text.rstrip("\r"))
    except ValueError:
        return None
