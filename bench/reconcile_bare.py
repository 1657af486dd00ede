"""A client that makes the operator's writes and decides nothing: no plan, no checks, and it forgets all when it ends.

    python bench/reconcile_bare.py NAMESPACE METRICS_PORT

What an operator costs beside it is what reconciling costs.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, start_http_server

from reconcile_api import jobs_path, pods_path, watch
from ringtrain_operator.api.spec import GROUP, KIND, VERSION
from ringtrain_operator.api.status import JobPhase, Member, TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.cluster import convert, events
from ringtrain_operator.cluster.api import Json, KubernetesApi
from ringtrain_operator.plan import children, pods
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import Job, Pod, PodPhase
from ringtrain_operator.plan.result import Event

_PARALLEL = 16


@dataclass(slots=True)
class Known:
    """A job, and the newest pod of each of its replicas."""

    job: Job
    pods: dict[int, Pod] = field(default_factory=dict)
    epoch: int = 0
    phase: JobPhase = JobPhase.PENDING
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


class Bare:
    def __init__(self, api: KubernetesApi, namespace: str, group: asyncio.TaskGroup) -> None:
        self._api = api
        self._namespace = namespace
        self._group = group
        self._jobs: dict[str, Known] = {}
        self._slots = asyncio.Semaphore(_PARALLEL)

    def job_seen(self, kind: str, raw: Json) -> None:
        if kind == "ADDED":
            known = self._jobs[raw["metadata"]["name"]] = Known(convert.job(raw))
            self._group.create_task(self._begin(known))

    def pod_seen(self, kind: str, raw: Json) -> None:
        known = self._jobs.get(raw["metadata"]["labels"][LABEL_JOB])
        pod = convert.pod(raw, known.job.uid) if known else None
        if known is None or pod is None or kind == "DELETED":
            return
        before = known.pods.get(pod.index)
        if before is None or before.epoch <= pod.epoch:
            known.pods[pod.index] = pod
        if before is None or before.phase != pod.phase:
            self._group.create_task(self._follow(known, pod))

    async def _begin(self, known: Known) -> None:
        async with known.busy, self._slots:
            spec = parse(known.job.key.name, known.job.spec)
            await self._tell(known, JobPhase.PENDING, "Started")
            await self._create(children.service(known.job), "services")
            await asyncio.gather(*(self._replace(known, index) for index in range(spec.replicas)))

    async def _follow(self, known: Known, pod: Pod) -> None:
        if pod.phase is PodPhase.FAILED:
            async with known.busy, self._slots:
                failed = [each.index for each in known.pods.values() if each.phase is PodPhase.FAILED]
                if failed:
                    known.epoch += 1
                    await self._tell(known, JobPhase.RESTARTING, "Signal9")
                    await asyncio.gather(*(self._replace(known, index) for index in failed))
            return
        replicas = known.job.spec["replicas"]
        for phase, then, reason in (
            (PodPhase.RUNNING, JobPhase.RUNNING, "Training"),
            (PodPhase.SUCCEEDED, JobPhase.SUCCEEDED, "Succeeded"),
        ):
            if sum(each.phase is phase for each in known.pods.values()) == replicas and known.phase is not then:
                known.phase = then
                async with known.busy, self._slots:
                    await self._tell(known, then, reason)

    async def _replace(self, known: Known, index: int) -> None:
        spec = parse(known.job.key.name, known.job.spec)
        raw = await self._create(pods.pod(known.job, spec, index, known.epoch), "pods")
        pod = convert.pod(raw, known.job.uid)
        assert pod is not None
        # The watch may have told more of it by now.
        if index not in known.pods or known.pods[index].epoch < pod.epoch:
            known.pods[index] = pod

    async def _create(self, manifest: Json, plural: str) -> Json:
        return await self._api.request("POST", f"/api/v1/namespaces/{self._namespace}/{plural}", body=manifest)

    async def _tell(self, known: Known, phase: JobPhase, reason: str) -> None:
        known.phase = phase
        status = TrainingJobStatus(
            phase=phase,
            epoch=known.epoch,
            members=tuple(Member(index=i, epoch=p.epoch, pod_uid=p.uid) for i, p in sorted(known.pods.items())),
            start_time=datetime.now(UTC),
        )
        body: Json = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": known.job.key.name, "namespace": self._namespace},
            "spec": known.job.spec,
            "status": status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True),
        }
        body["metadata"]["resourceVersion"] = known.job.resource_version
        path = f"{jobs_path(self._namespace, known.job.key.name)}/status"
        known.job = convert.job(await self._api.request("PUT", path, body=body))
        await events.post(self._api, known.job, Event("Normal", reason, "said"), datetime.now(UTC))


async def main(namespace: str, port: int) -> None:
    registry = CollectorRegistry()
    requests = Counter("ringtrain_operator_api_requests", "Requests.", ["verb"], registry=registry)
    start_http_server(port, "127.0.0.1", registry)
    async with KubernetesApi.connect(lambda verb, *_: requests.labels(verb).inc()) as api, asyncio.TaskGroup() as group:
        bare = Bare(api, namespace, group)
        group.create_task(watch(jobs_path(namespace), bare.job_seen))
        group.create_task(watch(pods_path(namespace), bare.pod_seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
