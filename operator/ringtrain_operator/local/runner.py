"""The loop of a local run: reconcile when something happens, show what came of it, end cleanly."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

from ringtrain_operator.api.status import TERMINAL
from ringtrain_operator.local.cluster import LocalCluster
from ringtrain_operator.local.output import Output
from ringtrain_operator.local.snapshot import History, take
from ringtrain_operator.local.view import View
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.reconcile import reconcile

_LONGEST_PAUSE = 1.0
"""Seconds between two passes at most: a run shows its progress, so it looks more often than an operator."""

_END_SECONDS = 60.0
"""How long pods may take to end by themselves once the job is over."""


class Interrupt:
    """Counts Ctrl-C and SIGTERM: the first asks for a clean end, the second for an immediate one. That nobody reads
    `output` any more asks for a clean end too."""

    def __init__(self, changed: asyncio.Event, output: Output) -> None:
        self.forced = asyncio.Event()
        self._signalled = False
        self._changed = changed
        self._output = output

    @property
    def asked(self) -> bool:
        return self._signalled or self._output.reader_gone

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            loop.add_signal_handler(number, self._again)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _again(self) -> None:
        if self.asked:
            self.forced.set()
        self._signalled = True
        self._changed.set()


async def run_job(cluster: LocalCluster, key: JobKey, view: View, interrupt: Interrupt) -> History:
    """Until the job is over and its pods are gone, or until an interrupt. Always ends every pod."""
    try:
        history = await _passes(cluster, key, view, interrupt)
        if interrupt.asked:
            await _stop(cluster, view, interrupt)
        return history
    finally:
        await cluster.close()


async def _passes(cluster: LocalCluster, key: JobKey, view: View, interrupt: Interrupt) -> History:
    history = History()
    loop = asyncio.get_running_loop()
    over_since: float | None = None
    told = ""
    while not interrupt.asked:
        cluster.changed.clear()
        pause, trouble = await _pass(cluster, key)
        if trouble and trouble != told:
            view.note(f"will be tried again: {trouble}")
        told = trouble
        snapshot = take(cluster.status, cluster.pods, cluster.agents)
        history = history.after(snapshot)
        view.update(snapshot)
        if cluster.status.phase in TERMINAL:
            over_since = over_since or loop.time()
            if not cluster.running or loop.time() - over_since > _END_SECONDS:
                break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await cluster.changed.wait()
    return history


async def _pass(cluster: LocalCluster, key: JobKey) -> tuple[float, str]:
    """(seconds until the next pass, why this one has to be repeated or "")."""
    try:
        requeue_after = (await reconcile(cluster, key, datetime.now(UTC))).requeue_after
    except OSError as error:
        return _LONGEST_PAUSE, str(error)
    except ExceptionGroup as group:
        if group.split(OSError)[1] is not None:
            raise
        return _LONGEST_PAUSE, "; ".join(map(str, group.exceptions))
    return min(_LONGEST_PAUSE if requeue_after is None else requeue_after, _LONGEST_PAUSE), ""


async def _stop(cluster: LocalCluster, view: View, interrupt: Interrupt) -> None:
    """Within the pods' grace period, or at once when asked again."""
    view.note("stopping the pods (Ctrl-C again kills them)")
    cluster.stop()
    stopped = asyncio.create_task(cluster.wait_stopped())
    forced = asyncio.create_task(interrupt.forced.wait())
    await asyncio.wait({stopped, forced}, return_when=asyncio.FIRST_COMPLETED)
    cluster.stop(force=True)
    await stopped
    forced.cancel()
