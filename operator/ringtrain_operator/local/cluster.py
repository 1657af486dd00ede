"""The Cluster protocol on one machine: one job, kept in memory and mirrored to its run directory."""

import asyncio
import errno
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.report import AgentStatus
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.cluster.protocol import Cluster, Conflict
from ringtrain_operator.fetch import get
from ringtrain_operator.local.container import Machine, localize
from ringtrain_operator.local.kubelet import PodFiles, PodProcess
from ringtrain_operator.local.run_directory import RunDirectory
from ringtrain_operator.local.termination_log import TerminationLog
from ringtrain_operator.plan.names import LABEL_HOLDING
from ringtrain_operator.plan.observed import Job, JobKey, Observed, Pod, PodPhase
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Event
from ringtrain_operator.plan.room import Room

_STATUS_SECONDS = 2.0
"""Longest wait for an agent's /status in one pass."""


class LocalCluster(Cluster):
    """Holds one job and its pods. `close` must be called, whatever happens."""

    def __init__(
        self,
        key: JobKey,
        spec: Mapping[str, Any],
        status: TrainingJobStatus,
        directory: RunDirectory,
        machine: Machine,
        folder: Path,
        on_event: Callable[[Event], None],
    ) -> None:
        """`folder` is the pods' working directory."""
        self._job = Job(
            key=key,
            uid=str(uuid.uuid4()),
            resource_version="1",
            generation=1,
            spec=spec,
            status=status,
            created=datetime.now(UTC),
            log_file=directory.log_file,
        )
        self._directory = directory
        self._machine = machine
        self._folder = folder
        self._on_event = on_event
        self._pods: dict[str, PodProcess] = {}
        self._service_exists = False
        self._told: set[str] = set()
        """Which files could not be written, since the status last could."""
        self._waits: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()
        """Set whenever a pod's state changed."""
        self.agents: dict[int, AgentStatus] = {}
        """What each replica's agent said in the last pass; those that did not answer are missing."""

    @property
    def status(self) -> TrainingJobStatus:
        return self._job.status

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(process.pod for process in self._pods.values())

    @property
    def running(self) -> bool:
        """Whether some pod's process is still there."""
        return any(not process.ended for process in self._pods.values())

    def log_of(self, pod: str) -> Path:
        return Path(self._directory.log_file.format(pod=pod))

    async def get_job(self, key: JobKey) -> Job | None:
        """Raises RunDirectoryLost."""
        self._directory.check()
        return self._job if key == self._job.key and not self._job.deleting else None

    async def observe(self, job: Job) -> Observed:  # noqa: ARG002 - the one job
        self.agents = await self._ask_agents()
        reports = (self.agents[index].job_report for index in sorted(self.agents))
        return Observed(
            pods=self.pods,
            service_exists=self._service_exists,
            claim_exists=True,
            report=next((report for report in reports if report is not None), None),
        )

    @asynccontextmanager
    async def look_for_room(self, job: Job) -> AsyncIterator[Room]:  # noqa: ARG002 there is only this one
        yield Room(hidden="there are no nodes here")

    async def write_status(self, job: Job, status: TrainingJobStatus) -> None:
        """Raises RunDirectoryLost. A file that cannot be written is told, not raised."""
        if job.resource_version != self._job.resource_version:
            raise Conflict(str(job.key))
        try:
            self._directory.write_status(status)
            self._told.clear()
        except OSError as error:
            self._directory.check()
            # A full disk must not end the training. An epoch that the next run does not know of does no harm: the
            # coordinator numbers above every checkpoint that it finds, and no pod outlives its run.
            self._not_written(error)
        self._job = replace(self._job, status=status, resource_version=str(int(job.resource_version) + 1))

    async def delete_pod(self, job: Job, delete: DeletePod) -> None:  # noqa: ARG002 - the one job
        process = self._pods.get(delete.name)
        if process is None or process.pod.uid != delete.uid:
            return
        process.stop(deleting=True, force=delete.force)
        self._background(self._remove(delete.name, process))

    async def end_pod(self, job: Job, end: EndPod) -> None:
        """Nothing runs beside a training container here."""

    async def create(self, job: Job, create: Create) -> None:  # noqa: ARG002 - the one job
        kind = create.manifest["kind"]
        if kind == "Service":
            self._service_exists = True
        elif kind == "Pod" and create.manifest["metadata"]["name"] not in self._pods:
            await self._create_pod(create.manifest)

    async def delete_job(self, job: Job) -> None:
        if job.resource_version != self._job.resource_version:
            raise Conflict(str(job.key))
        self._job = replace(self._job, deleting=True)

    async def emit(self, job: Job, event: Event) -> None:  # noqa: ARG002 - the one job
        self._on_event(event)

    def stop(self, *, force: bool = False) -> None:
        """Asks all pods to end, or kills them with `force`. Returns at once."""
        for process in self._pods.values():
            process.stop(deleting=False, force=force)

    async def wait_stopped(self) -> None:
        """Until no pod's process is left."""
        await asyncio.gather(*(process.wait() for process in self._pods.values()))

    async def close(self) -> None:
        """Kills what still runs and waits for its end."""
        self.stop(force=True)
        await self.wait_stopped()
        await asyncio.gather(*self._waits)

    async def _create_pod(self, manifest: Mapping[str, Any]) -> None:
        name, uid = manifest["metadata"]["name"], str(uuid.uuid4())
        folder = self._directory.pod(name)
        files = PodFiles(log=folder / "log", termination=folder / "termination-message")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.termination.unlink(missing_ok=True)
        except OSError as error:
            self._not_written(error)
        last_words = TerminationLog()
        process = self._pods[name] = PodProcess(
            name,
            uid,
            localize(manifest, uid, last_words.path, self._machine),
            files,
            last_words,
            holding=LABEL_HOLDING in manifest["metadata"].get("labels", {}),
            changed=self.changed.set,
            not_written=self._not_written,
        )
        await process.start(self._folder)

    async def _remove(self, name: str, process: PodProcess) -> None:
        await process.wait()
        if self._pods.get(name) is process:
            del self._pods[name]
            self.changed.set()

    def _not_written(self, error: OSError) -> None:
        """Tells the user, once."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = f"no space left on {self._directory.root}: until there is some, logs and status are not written"
        else:
            text = f"{error.filename or self._directory.root} cannot be written: {error.strerror}"
        if text not in self._told:
            self._told.add(text)
            self._on_event(Event("Warning", "NotWritten", text))

    def _background(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    async def _ask_agents(self) -> dict[int, AgentStatus]:
        running = [p for p in self._pods.values() if p.pod.phase is PodPhase.RUNNING and not p.pod.deleting]
        answers = await asyncio.gather(*map(_ask, running))
        return {process.pod.index: answer for process, answer in zip(running, answers, strict=True) if answer}


async def _ask(process: PodProcess) -> AgentStatus | None:
    try:
        status, body = await get(process.address, AGENT_PORT, "/status", _STATUS_SECONDS)
        return AgentStatus.model_validate_json(body) if status == 200 else None
    except (OSError, ValidationError):
        return None
