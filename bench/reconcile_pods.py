"""Pods without a kubelet: their statuses are patched as a kubelet would, and their agents are answered for here.

No scheduler knows the pods either, so they are on no node, and are gone as soon as they are deleted.
"""

import asyncio
import resource
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Network

from aiohttp import web

from reconcile_api import pods_path, watch
from ringtrain.contract.addresses import AGENT_PORT
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, JobReport, Progress
from ringtrain_operator.cluster.api import Json, KubernetesApi
from ringtrain_operator.plan.names import LABEL_EPOCH, LABEL_JOB, LABEL_REPLICA

SCHEDULER = "nobody"
NETWORK = IPv4Network("198.18.0.0/15")
"""Of the pods: kept for benchmarks by RFC 2544. It leads to the loopback interface while the benchmark runs."""
_PARALLEL = 32
ROUNDS = 1_000_000


@dataclass(slots=True)
class Replica:
    """One pod."""

    job: str
    index: int
    epoch: int
    name: str
    phase: str = "Pending"
    times: dict[str, float] = field(default_factory=dict)
    """When it was first seen in each phase, and ADDED, by the event loop's clock."""


class SimulatedPods:
    """All pods of one namespace."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.pods: dict[str, Replica] = {}
        """Those that were ever there, by name."""
        self.polls = 0
        self._api = api
        self._namespace = namespace
        self._addresses = NETWORK.hosts()
        self._by_address: dict[str, Replica] = {}
        self._epochs: dict[str, int] = {}
        self._runner: web.AppRunner | None = None
        self._running = asyncio.Semaphore(_PARALLEL)
        self._started = datetime.now(UTC)

    async def run(self) -> None:
        """Until cancelled: every pod that is created runs, and is ready."""
        async with asyncio.TaskGroup() as group:

            def seen(kind: str, raw: Json) -> None:
                if self._seen(kind, raw):
                    group.create_task(self.begin(raw["metadata"]["name"]))

            await watch(pods_path(self._namespace), seen)

    async def begin(self, name: str) -> None:
        pod = self.pods[name]
        address = str(next(self._addresses))
        self._by_address[address] = pod
        assert self._runner is not None, "no agent can answer yet"
        await web.TCPSite(self._runner, address, AGENT_PORT).start()
        now = _time()
        await self._patch(
            name,
            {
                "phase": "Running",
                "podIP": address,
                "podIPs": [{"ip": address}],
                "startTime": now,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
                "containerStatuses": [_container(ready=True, state={"running": {"startedAt": now}})],
            },
        )

    async def end(self, names: Iterable[str], code: int) -> None:
        """Their containers end with `code`, all at once."""
        ended = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _time()}}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": _time()}],
            "containerStatuses": [_container(ready=False, state=ended)],
        }
        await asyncio.gather(*(self._patch(name, status) for name in names))

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """GET /status of every pod's agent is answered until the block ends."""
        application = web.Application()
        application.router.add_get("/status", self._status)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        # A listener for each agent.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        route = ("local", str(NETWORK), "dev", "lo")
        subprocess.run(["ip", "route", "replace", *route], check=True)
        try:
            yield
        finally:
            await self._runner.cleanup()
            subprocess.run(["ip", "route", "del", *route], check=True)

    def _seen(self, kind: str, raw: Json) -> bool:
        """Whether the pod has to be begun."""
        labels, name = raw["metadata"]["labels"], raw["metadata"]["name"]
        now = asyncio.get_running_loop().time()
        is_new = name not in self.pods
        if is_new:
            job, epoch = labels[LABEL_JOB], int(labels[LABEL_EPOCH])
            self.pods[name] = Replica(job, int(labels[LABEL_REPLICA]), epoch, name)
            self._epochs[job] = max(epoch, self._epochs.get(job, 0))
        pod = self.pods[name]
        pod.phase = "Gone" if kind == "DELETED" else raw["status"]["phase"]
        pod.times.setdefault("ADDED" if is_new else pod.phase, now)
        return is_new

    async def _patch(self, name: str, status: Json) -> None:
        async with self._running:
            await self._api.request("PATCH", f"{pods_path(self._namespace, name)}/status", body={"status": status})

    async def _status(self, request: web.Request) -> web.Response:
        self.polls += 1
        assert request.transport is not None
        pod = self._by_address[request.transport.get_extra_info("sockname")[0]]
        rounds = int((datetime.now(UTC) - self._started).total_seconds() * 10)
        report = JobReport(
            generation=f"{self._epochs[pod.job]}.0",
            phase=Phase.TRAINING,
            progress=Progress(round=rounds, total_rounds=ROUNDS, loss=100 / (rounds + 1)),
            coordinator_id=pod.job,
        )
        status = AgentStatus(job=pod.job, replica=pod.index, epoch=pod.epoch, live=True, job_report=report)
        return web.Response(text=status.to_json(), content_type="application/json")


def _container(*, ready: bool, state: Json) -> Json:
    return {
        "name": "trainer",
        "image": "none",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "started": ready,
        "state": state,
    }


def _time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
