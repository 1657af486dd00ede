"""The operator as a whole: watches, queue, passes, endpoints."""

import asyncio
import logging
import signal
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Set
from datetime import UTC, datetime

import kopf

from ringtrain_operator import handlers
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kinds import Kind
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.cluster.protocol import Rejected
from ringtrain_operator.cluster.rate import Rate
from ringtrain_operator.feed import Feed
from ringtrain_operator.health import WatchHealth
from ringtrain_operator.leadership import Leadership
from ringtrain_operator.metrics import OperatorMetrics
from ringtrain_operator.page.board import Board
from ringtrain_operator.page.routes import LOOPBACK, page_routes
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.queue import Workers
from ringtrain_operator.reconcile import reconcile
from ringtrain_operator.resync import Resync
from ringtrain_operator.server import health_routes, metrics_routes, serve
from ringtrain_operator.settings import Settings

_REFUSED_SECONDS = 5.0
"""Until what was refused is tried again: a quota, for one, may have room at any moment, and nobody would tell."""

_clock = time.monotonic
_logger = logging.getLogger(__name__)


class _Stopped(Exception):
    """A signal asked for the end."""


async def operate(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Raises an ExceptionGroup when any part ends by itself: then all of it ends.

    It may be killed at any moment: everything it knows is in the jobs' status.
    """
    stop = _stop_signal()
    operator = _Operator(settings, stop)
    async with (
        serve(settings.health_port, health_routes(operator.problems, operator.unready)),
        serve(settings.metrics_port, metrics_routes(operator.metrics.registry)),
        serve(settings.page_port, page_routes(operator.board), LOOPBACK),
    ):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(operator.run())
                await stop.wait()
                raise _Stopped
        except* _Stopped:
            pass


class _Operator:
    """Stands by until it leads, where there may be others."""

    def __init__(self, settings: Settings, stop: asyncio.Event) -> None:
        self.metrics = OperatorMetrics(lambda: len(self._workers) if self._workers is not None else None)
        self.board = Board("cluster", lambda: datetime.now(UTC), self._standby)
        self._settings = settings
        self._stop = stop
        self._workers: Workers[JobKey] | None = None
        self._health: WatchHealth | None = None
        """None while it stands by: then it watches nothing, and is well."""

    def problems(self) -> tuple[str, ...]:
        """Reasons to be restarted."""
        return self._health.problems(_clock()) if self._health is not None else ()

    def unready(self) -> tuple[str, ...]:
        if self._health is None:
            return () if self._settings.lease is not None else ("it is starting",)
        return () if self._health.is_ready() else ("jobs, pods and nodes were not listed yet",)

    def _standby(self) -> str:
        return (
            ""
            if self._health is not None
            else "This operator stands by: another one leads, and has the page of the jobs."
        )

    async def run(self) -> None:
        """Never returns. Raises LeadershipLost, among others."""
        lease = self._settings.lease
        if lease is None:
            await self._lead(lambda: True)
            return
        me = f"{socket.gethostname()}_{uuid.uuid4()}"
        # A connection of its own: a renewal waits for no other request.
        async with KubernetesApi.connect(self.metrics.requested) as api:
            leadership = Leadership(api, lease, me, self._settings.lease_seconds, _clock)
            await leadership.acquire()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(leadership.keep())
                    group.create_task(self._lead(leadership.holds))
            finally:
                await leadership.release()

    async def _lead(self, leads: Callable[[], bool]) -> None:
        settings = self._settings
        unread = {Kind.NODES: not settings.watch_nodes, Kind.POLICIES: settings.agents_from is None}
        kinds = [kind for kind in Kind if not unread.get(kind)]
        self._health = WatchHealth(kinds, _clock())
        rate = Rate(settings.requests_per_second, settings.burst)
        async with KubernetesApi.connect(self.metrics.requested, leads, rate=rate) as api:
            cluster = KubernetesCluster(api, _clock, kinds, settings.agents_from, settings.job_defaults)
            self._workers = Workers(_measured(cluster, self.metrics, self.board), settings.concurrency)
            feed = Feed(self._workers.add, cluster, self._health, self._keep, _clock)
            resync = Resync(api, kinds, settings.watch_namespaces, feed, _clock)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._workers.run())
                group.create_task(_watch_and_resync(settings, handlers.registry(feed, kinds), resync, self._stop))

    def _keep(self, keys: Set[JobKey]) -> None:
        self.metrics.jobs.keep(keys)
        self.board.keep(keys)


async def _watch_and_resync(
    settings: Settings, registry: kopf.OperatorRegistry, resync: Resync, stop: asyncio.Event
) -> None:
    # kopf looks for the resources once, when it starts.
    await resync.until_served()
    async with asyncio.TaskGroup() as group:
        group.create_task(resync.run(settings.resync_seconds))
        group.create_task(_watch(settings, registry, stop))


async def _watch(settings: Settings, registry: kopf.OperatorRegistry, stop: asyncio.Event) -> None:
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=handlers.settings(),
        standalone=True,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
    )
    _stop_signal(stop)  # kopf has just set its own.
    await kopf.run_tasks(tasks, ignored=others)
    raise RuntimeError("kopf's watches ended")


def _measured(
    cluster: KubernetesCluster, metrics: OperatorMetrics, board: Board
) -> Callable[[JobKey], Awaitable[float | None]]:
    async def work(key: JobKey) -> float | None:
        result = "error"
        try:
            now = datetime.now(UTC)
            with metrics.pass_seconds.time():
                done = await reconcile(cluster, key, now)
            result = "success"
            metrics.jobs.seen(key, done.status, now)
            board.seen(key, done.status, now)
            return done.requeue_after
        except Rejected as refusal:
            result = "rejected"
            _logger.warning("%s: %s; trying again in %.0f s", key, refusal, _REFUSED_SECONDS)
            return _REFUSED_SECONDS
        finally:
            metrics.passes.labels(result).inc()

    return work


def _stop_signal(stop: asyncio.Event | None = None) -> asyncio.Event:
    stop = stop or asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
