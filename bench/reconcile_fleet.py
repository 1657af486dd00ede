"""Jobs of a benchmark and their pods, and when what happened to them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from reconcile_api import jobs_path, training_job, until, watch
from reconcile_pods import ROUNDS, SCHEDULER, Replica, SimulatedPods
from ringtrain_operator.cluster.api import Json, KubernetesApi

_PARALLEL = 16
_PHASE_SECONDS = 900.0
_NOISE = "noisy"
_KILLED = 137


class Fleet:
    """In one namespace. Times are of the event loop's clock."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._simulated = SimulatedPods(api, namespace)
        self._jobs: dict[str, dict[str, float]] = {}
        """By name: when it was first seen in each phase."""
        self._phase: dict[str, str] = {}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with self._simulated.answering(), asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._simulated.run()),
                group.create_task(watch(jobs_path(self._namespace), self._seen)),
            ]
            yield
            for task in tasks:
                task.cancel()

    @property
    def polls(self) -> int:
        return self._simulated.polls

    async def create(self, jobs: int, replicas: int) -> None:
        slots = asyncio.Semaphore(_PARALLEL)

        async def one(number: int) -> None:
            async with slots:
                await self._submit(f"job-{number}", replicas)

        self._jobs = {f"job-{number}": {} for number in range(jobs)}
        await asyncio.gather(*map(one, range(jobs)))

    async def all_in(self, phase: str) -> None:
        await until(
            lambda: all(self._phase.get(name) == phase for name in self._jobs), f"all jobs {phase}", _PHASE_SECONDS
        )

    async def fail(self, count: int) -> list[Replica]:
        """That many pods end at once, spread over the jobs."""
        failed = sorted(self._running(), key=lambda pod: (pod.index, pod.job))[:count]
        await self._simulated.end([pod.name for pod in failed], _KILLED)
        return failed

    async def replaced(self, failed: Sequence[Replica]) -> None:
        await until(lambda: all(map(self._successor, failed)), "all pods are replaced", _PHASE_SECONDS)

    async def finish(self) -> None:
        """Job by job: the operator ends pods that outlive others of a finished job for long."""
        await self._simulated.end([pod.name for pod in sorted(self._running(), key=lambda pod: pod.job)], 0)

    async def noisy(self, replicas: int) -> "Noise":
        """One more job, whose pods end as soon as they run."""
        await self._submit(_NOISE, replicas)
        return Noise(self._simulated)

    def reactions(self, failed: Sequence[Replica]) -> list[float]:
        successors = [(pod, self._successor(pod)) for pod in failed]
        return [new.times["ADDED"] - pod.times["Failed"] for pod, new in successors if new is not None]

    def finishes(self) -> list[float]:
        ended: dict[str, float] = {}
        for pod in self._simulated.pods.values():
            if "Succeeded" in pod.times:
                ended[pod.job] = max(ended.get(pod.job, 0), pod.times["Succeeded"])
        return [max(0, self._jobs[job]["Succeeded"] - at) for job, at in ended.items()]

    def _running(self) -> list[Replica]:
        return [pod for pod in self._simulated.pods.values() if pod.phase == "Running" and pod.job in self._jobs]

    def _successor(self, failed: Replica) -> Replica | None:
        pods = self._simulated.pods
        prefix = f"{failed.job}-{failed.index}-"
        epochs = range(failed.epoch + 1, failed.epoch + 50)
        return next((pods[name] for epoch in epochs if (name := f"{prefix}{epoch}") in pods), None)

    async def _submit(self, name: str, replicas: int) -> None:
        await self._api.request("POST", jobs_path(self._namespace), body=training_job(name, _spec(replicas)))

    def _seen(self, _kind: str, raw: Json) -> None:
        name, phase = raw["metadata"]["name"], raw.get("status", {}).get("phase", "")
        self._phase[name] = phase
        if name in self._jobs:
            self._jobs[name].setdefault(phase, asyncio.get_running_loop().time())


class Noise:
    def __init__(self, pods: SimulatedPods) -> None:
        self._pods = pods
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            mine = [pod.name for pod in self._pods.pods.values() if pod.job == _NOISE and pod.phase == "Running"]
            await self._pods.end(mine, _KILLED)
            await asyncio.sleep(0.1)


def _spec(replicas: int) -> Json:
    return {
        "image": "none",
        "replicas": replicas,
        "device": "cpu",
        "trainer": {"rounds": ROUNDS, "data": {"paths": ["/data/*.txt"]}},
        "faultTolerance": {"maxRestarts": 10000},
        "template": {"spec": {"schedulerName": SCHEDULER}},
    }
