"""A kubelet's work for one pod: start its container, probe it, stop it when it must go, say how it ended."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ringtrain_operator.fetch import get
from ringtrain_operator.local import pod_log, processes
from ringtrain_operator.local.container import POD_UID, Container
from ringtrain_operator.local.probes import Probe, Verdict
from ringtrain_operator.local.termination_log import TerminationLog
from ringtrain_operator.plan.observed import Pod, PodPhase

_LAST_OUTPUT_SECONDS = 5.0
"""For what a pod printed before its end; a process that cannot be killed may hold the pipe for ever."""


@dataclass(frozen=True, slots=True)
class PodFiles:
    """Kept for people, as far as there is room: nothing else reads them."""

    log: Path
    termination: Path


class PodProcess:
    """One pod: a process and what is known of it. `pod` is what an API server would show."""

    def __init__(
        self,
        name: str,
        uid: str,
        container: Container,
        files: PodFiles,
        last_words: TerminationLog,
        *,
        holding: bool,
        changed: Callable[[], None],
        not_written: Callable[[OSError], None],
    ) -> None:
        """Closes `last_words`, to which the container writes, at its end. `changed` hears of every change of `pod`,
        `not_written` of what is missing in `files`."""
        self.container = container
        self.files = files
        self.pod = Pod(
            name=name,
            uid=uid,
            index=container.replica.replica,
            epoch=container.replica.epoch,
            phase=PodPhase.PENDING,
            created=datetime.now(UTC),
            holding=holding,
        )
        self._last_words = last_words
        self._changed = changed
        self._not_written = not_written
        self._process: asyncio.subprocess.Process | None = None
        self._ended = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self._life: asyncio.Task[None] | None = None
        self._log: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        replica = self.container.replica
        return replica.addresses.of(replica.replica)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def start(self, folder: Path) -> None:
        """Starts the container in `folder`. A process that cannot be started is a failed pod, not an error here."""
        output, pipe = os.pipe()
        try:
            self._process = await processes.start(self.container.arguments, self.container.environment, folder, pipe)
        except OSError as error:
            os.close(output)
            self._end(127, f"cannot start {self.container.arguments[0]}: {error.strerror}")
            return
        finally:
            os.close(pipe)
        self._log = asyncio.create_task(pod_log.keep(output, self.files.log, self._not_written))
        self._show(phase=PodPhase.RUNNING)
        self._life = asyncio.create_task(self._live(self._process))

    def stop(self, *, deleting: bool, force: bool = False) -> None:
        """SIGTERM now and SIGKILL after the grace period, or SIGKILL at once with `force`. Returns without waiting."""
        if deleting and not self.pod.deleting:
            self._show(deleting=True)
        if self.ended or self._process is None:
            return
        if force:
            self._signal(signal.SIGKILL)
        elif self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_in_time())

    async def wait(self) -> None:
        """Until the process and all that it started are gone."""
        if self._life is not None:
            await asyncio.shield(self._life)

    async def _live(self, process: asyncio.subprocess.Process) -> None:
        """From start to end: the probes run beside the process and end with it."""
        probes = [asyncio.create_task(self._watch_liveness()), asyncio.create_task(self._watch_readiness())]
        try:
            returncode = await process.wait()
        finally:
            for task in (*probes, *([self._stopping] if self._stopping else [])):
                task.cancel()
        gone = await processes.kill_marked(POD_UID, self.pod.uid)
        if self._log is not None:
            await asyncio.wait([self._log], timeout=_LAST_OUTPUT_SECONDS)
            self._log.cancel()
        message = self._last_words.read()
        try:
            self.files.termination.write_text(message, encoding="utf-8")
        except OSError as error:
            self._not_written(error)
        self._end(processes.exit_code(returncode), message if gone else f"{message} (processes are left behind)")

    async def _stop_in_time(self) -> None:
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.container.grace_seconds):
                await self._ended.wait()
                return
        self._signal(signal.SIGKILL)

    async def _watch_liveness(self) -> None:
        probe = self.container.liveness
        if probe is None:
            return
        verdict = Verdict(passing=True)
        await asyncio.sleep(probe.initial_delay)
        while verdict.passing:
            await asyncio.sleep(probe.period)
            verdict = verdict.after(await self._probe(probe), probe)
        self.stop(deleting=False)

    async def _watch_readiness(self) -> None:
        probe = self.container.readiness
        if probe is None:
            self._show(ready=True)
            return
        verdict = Verdict(passing=False)
        await asyncio.sleep(probe.initial_delay)
        while True:
            verdict = verdict.after(await self._probe(probe), probe)
            if verdict.passing != self.pod.ready:
                self._show(ready=verdict.passing)
            await asyncio.sleep(probe.period)

    async def _probe(self, probe: Probe) -> bool:
        try:
            status, _ = await get(self.address, probe.port, probe.path, probe.timeout)
        except OSError:
            return False
        return 200 <= status < 400

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _end(self, code: int, message: str) -> None:
        self._last_words.close()
        self._show(
            phase=PodPhase.FAILED if code else PodPhase.SUCCEEDED,
            ready=False,
            exit_code=code,
            reason="Error" if code else "Completed",
            message=message,
        )
        self._ended.set()

    def _show(self, **news: object) -> None:
        self.pod = replace(self.pod, **news)  # type: ignore[arg-type]
        self._changed()
