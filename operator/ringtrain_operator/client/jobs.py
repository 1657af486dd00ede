"""TrainingJobs of a cluster, for those who use them: the verbs of the command line."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self

from pydantic import ValidationError

from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.report import AgentStatus
from ringtrain_operator.api.spec import GROUP, PLURAL, VERSION
from ringtrain_operator.api.status import JobPhase
from ringtrain_operator.client.errors import NoSuchJob, Refused, TookTooLong, explain, explained
from ringtrain_operator.client.events import JobEvent, events_of
from ringtrain_operator.client.job import TrainingJob, deletes_its_claim, manifest_of
from ringtrain_operator.client.log_line import LogLine
from ringtrain_operator.client.logs import PodLogs, Sight
from ringtrain_operator.client.pods import is_running, pods_of
from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.cluster.credentials import current_namespace
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import Pod

WATCH_SECONDS = 1.0
"""Between two looks at a watched job."""
_ASKED_AT_ONCE = 16
_ATTEMPTS = 5


class TrainingJobs:
    """Those of one namespace. All methods raise ClientError, whose message says what to do."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self._core = f"/api/v1/namespaces/{namespace}"
        self._jobs = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"

    @classmethod
    @asynccontextmanager
    async def connect(cls, namespace: str | None = None, context: str | None = None) -> AsyncIterator[Self]:
        """By $KUBECONFIG, the pod's service account or ~/.kube/config; the namespace and the context are the current
        ones by default."""
        with explained():
            chosen = namespace or current_namespace(context)
            async with KubernetesApi.connect(context=context) as api:
                yield cls(api, chosen)

    async def find(self, name: str) -> TrainingJob | None:
        """None when there is no such job."""
        with explained():
            raw = await self.api.get(f"{self._jobs}/{name}")
        return None if raw is None else TrainingJob.of(raw)

    async def get(self, name: str) -> TrainingJob:
        """Raises NoSuchJob."""
        found = await self.find(name)
        if found is None:
            raise NoSuchJob(
                f"there is no TrainingJob {name} in namespace {self.namespace}: `ringtrain status` lists those of a "
                "namespace (-n), and of all (-A)"
            )
        return found

    async def list(self, *, all_namespaces: bool = False) -> tuple[TrainingJob, ...]:
        """By namespace and name."""
        path = f"/apis/{GROUP}/{VERSION}/{PLURAL}" if all_namespaces else self._jobs
        with explained():
            raw = await self.api.list(path)
        return tuple(sorted(map(TrainingJob.of, raw), key=lambda job: (job.namespace, job.name)))

    async def watch(self, name: str) -> AsyncIterator[TrainingJob]:
        """The job now and whenever it changes, for ever: look at `is_over`. Raises NoSuchJob when it is deleted."""
        seen = ""
        while True:
            job = await self.get(name)
            version = str(job.raw["metadata"]["resourceVersion"])
            if version != seen:
                yield job
                seen = version
            await asyncio.sleep(WATCH_SECONDS)

    async def submit(self, manifest: Mapping[str, Any]) -> TrainingJob:
        """Makes the job, or makes the one of that name what `manifest` says; labels and annotations that it has beside
        those of the manifest stay. An unchanged job is left as it is."""
        metadata = manifest["metadata"]
        path, name = self._jobs, metadata["name"]
        for _ in range(_ATTEMPTS):
            stored = await self.find(name)
            try:
                if stored is None:
                    return TrainingJob.of(await self.api.request("POST", path, body=dict(manifest)))
                changed = _replaced(stored.raw, manifest)
                return TrainingJob.of(await self.api.request("PUT", f"{path}/{name}", body=changed))
            except ApiError as error:
                if error.status != 409:
                    raise explain(error) from error
        raise Refused(f"{name} is being changed by somebody else: try again")

    async def suspend(self, name: str) -> TrainingJob:
        """Its ranks save a checkpoint, and its pods end; `status.phase` tells when they have."""
        return await self._set_suspend(name, True)

    async def resume(self, name: str) -> TrainingJob:
        """A suspended job goes on from its newest checkpoint."""
        return await self._set_suspend(name, False)

    async def restart(self, name: str, within: float, told: Callable[[str], None] = lambda _: None) -> TrainingJob:
        """Starts all pods anew, from the newest checkpoint. Of a job that has ended another one is made, which goes on
        where the volume's newest checkpoint is. Raises TookTooLong when pods do not end `within` so many seconds: the
        job then stays suspended. `told` hears of each step."""
        job = await self.get(name)
        if job.is_over:
            return await self._make_again(job, within, told)
        if job.spec.get("suspend"):
            raise Refused(f"{name} is suspended: `ringtrain resume {name}` starts it")
        told("suspending: all ranks save a checkpoint, and the pods end")
        await self.suspend(name)
        try:
            async with asyncio.timeout(within):
                async for seen in self.watch(name):
                    if seen.status.phase is JobPhase.SUSPENDED and seen.status.observed_generation >= seen.generation:
                        break
        except TimeoutError:
            raise TookTooLong(
                f"the pods of {name} did not end within {within:.0f} s: it stays suspended, `ringtrain resume {name}` "
                "lets it go on"
            ) from None
        told("resuming")
        return await self.resume(name)

    async def delete(self, name: str) -> TrainingJob:
        """With its pods and its Service; the volume claim that it made stays, unless its `whenDeleted` is Delete. The
        job as it was."""
        with explained():
            job = await self.get(name)
            await self.api.request("DELETE", f"{self._jobs}/{name}", body={"propagationPolicy": "Background"})
            return job

    async def events(self, name: str) -> tuple[JobEvent, ...]:
        """About the job, its pods and its claim, oldest first."""
        job = await self.get(name)
        with explained():
            return events_of(name, job.uid, await self.api.list(f"{self._core}/events"))

    async def pods(self, job: TrainingJob) -> tuple[Pod, ...]:
        """By replica and epoch."""
        with explained():
            return pods_of(job.uid, await self.api.list(f"{self._core}/pods", f"{LABEL_JOB}={job.name}"))

    async def agents(self, pods: tuple[Pod, ...]) -> Mapping[str, AgentStatus]:
        """By pod, what the agents of running ones say of their ranks; they are asked through the API server, which
        needs the right to get pods/proxy. Those that give no answer are missing."""
        slots = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def ask(pod: Pod) -> AgentStatus | None:
            async with slots:
                try:
                    raw = await self.api.request("GET", f"{self._core}/pods/{pod.name}:{AGENT_PORT}/proxy/status")
                    return AgentStatus.model_validate(raw, extra="ignore")
                except ApiError as error:
                    if error.status == 403:
                        raise
                    return None
                except ValidationError:
                    return None

        running = [pod for pod in pods if is_running(pod)]
        with explained():
            answers = await asyncio.gather(*map(ask, running))
        return {pod.name: answer for pod, answer in zip(running, answers, strict=True) if answer is not None}

    async def logs(
        self,
        name: str,
        *,
        replica: int | None = None,
        rank: int | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[LogLine, None]:
        """Of all replicas, of one, or of one rank; an only rank's lines and its agent's are one. With `follow`, lines
        as they come until the job is over, also of pods that replace others. `tail`: of each pod, only so many of the
        last lines, of all its ranks. Close it (`contextlib.aclosing`)."""
        logs = PodLogs(self.api, self.namespace)
        asked = await self.get(name)
        several = asked.procs_per_replica > 1
        if rank is not None:
            replica = asked.replica_of(rank)

        async def look() -> Sight:
            job = await self.get(name)
            pods = await self.pods(job)
            return Sight(tuple(pod for pod in pods if replica in (None, pod.index)), job.is_over)

        with explained():
            lines = logs.follow(look, tail) if follow else logs.so_far((await look()).pods, tail)
            async with aclosing(lines):
                async for line in lines:
                    told = line.told_apart() if several else line
                    if not several or rank in (None, told.rank):
                        yield told

    async def _set_suspend(self, name: str, suspend: bool) -> TrainingJob:
        job = await self.get(name)
        if job.is_over:
            raise Refused(f"{name} has ended ({job.status.phase}): `ringtrain restart {name}` makes it anew")
        with explained():
            body = {"spec": {"suspend": suspend}}
            return TrainingJob.of(await self.api.request("PATCH", f"{self._jobs}/{name}", body=body))

    async def _make_again(self, job: TrainingJob, within: float, told: Callable[[str], None]) -> TrainingJob:
        if deletes_its_claim(job.spec):
            raise Refused(
                f"{job.name} has ended, and its checkpoints would be deleted with it (whenDeleted: Delete): delete and "
                "submit it yourself to start over"
            )
        told(f"it has ended ({job.status.phase}): deleting it, and making it anew")
        await self.delete(job.name)
        try:
            async with asyncio.timeout(within):
                while (there := await self.find(job.name)) is not None and there.uid == job.uid:
                    await asyncio.sleep(WATCH_SECONDS)
        except TimeoutError:
            raise TookTooLong(f"{job.name} was not deleted within {within:.0f} s: submit it again later") from None
        return await self.submit(manifest_of(job))


def _replaced(stored: Mapping[str, Any], manifest: Mapping[str, Any]) -> Json:
    metadata = dict(stored["metadata"])
    for field in ("labels", "annotations"):
        merged = (metadata.get(field) or {}) | (manifest["metadata"].get(field) or {})
        if merged:
            metadata[field] = merged
    return {**stored, "metadata": metadata, "spec": manifest["spec"]}
