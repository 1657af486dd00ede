"""The operator as a whole: watches, queue, passes, endpoints."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import kopf

from ringtrain_operator import handlers
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.cluster.protocol import Rejected
from ringtrain_operator.feed import Feed, Kind
from ringtrain_operator.health import WatchHealth
from ringtrain_operator.metrics import OperatorMetrics
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.queue import Workers
from ringtrain_operator.reconcile import reconcile
from ringtrain_operator.resync import Resync
from ringtrain_operator.server import health_routes, metrics_routes, serve
from ringtrain_operator.settings import Settings

_clock = time.monotonic


class _Stopped(Exception):
    """A signal asked for the end."""


async def operate(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Raises an ExceptionGroup when any part ends by itself: then all of it ends.

    It may be killed at any moment: everything it knows is in the jobs' status.
    """
    stop = _stop_signal()
    health = WatchHealth(Kind, _clock())
    metrics = OperatorMetrics(lambda: len(workers))
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(
            KubernetesApi.connect(lambda verb, status: metrics.api_errors.labels(verb, str(status)).inc())
        )
        cluster = KubernetesCluster(api, _clock)
        workers = Workers(_measured(cluster, metrics), settings.concurrency)
        feed = Feed(workers.add, cluster, health, metrics.jobs, _clock)
        resync = Resync(api, settings.watch_namespaces, feed, _clock)
        live = health_routes(
            live=lambda: health.problems(_clock()),
            ready=lambda: [] if health.is_ready() else ["jobs, pods and nodes were not listed yet"],
        )
        await stack.enter_async_context(serve(settings.health_port, live))
        await stack.enter_async_context(serve(settings.metrics_port, metrics_routes(metrics.registry)))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(workers.run())
                group.create_task(_watch_and_resync(settings, feed, resync, stop))
                await stop.wait()
                raise _Stopped
        except* _Stopped:
            pass


async def _watch_and_resync(settings: Settings, feed: Feed, resync: Resync, stop: asyncio.Event) -> None:
    # kopf looks for the resources once, when it starts.
    await resync.until_served()
    async with asyncio.TaskGroup() as group:
        group.create_task(resync.run(settings.resync_seconds))
        group.create_task(_watch(settings, feed, stop))


async def _watch(settings: Settings, feed: Feed, stop: asyncio.Event) -> None:
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=handlers.registry(feed),
        settings=handlers.settings(),
        standalone=True,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
    )
    _stop_signal(stop)  # kopf has just set its own.
    await kopf.run_tasks(tasks, ignored=others)
    raise RuntimeError("kopf's watches ended")


def _measured(cluster: KubernetesCluster, metrics: OperatorMetrics) -> Callable[[JobKey], Awaitable[float | None]]:
    async def work(key: JobKey) -> float | None:
        result = "error"
        try:
            with metrics.pass_seconds.time():
                done = await reconcile(cluster, key, datetime.now(UTC))
            result = "success"
            metrics.jobs.seen(key, done.status)
            return done.requeue_after
        except Rejected:
            result = "rejected"
            raise
        finally:
            metrics.passes.labels(result).inc()

    return work


def _stop_signal(stop: asyncio.Event | None = None) -> asyncio.Event:
    stop = stop or asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
