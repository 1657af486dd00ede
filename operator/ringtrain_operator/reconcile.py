"""One pass over one job: gather, plan, persist, act. What decides is in `plan`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.cluster.protocol import Cluster, Conflict
from ringtrain_operator.plan.observed import Job, JobKey
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Plan
from ringtrain_operator.plan.writing import is_due

_PARALLEL = 16
"""Requests of one pass that run at once."""

_Action = TypeVar("_Action")


@dataclass(frozen=True, slots=True)
class Pass:
    """What came of a pass."""

    status: TrainingJobStatus | None
    """As it is stored now, as far as known; None when the job does not exist."""
    requeue_after: float | None = None
    """Seconds until the next pass even if nothing happens; None: only when something does."""


async def reconcile(cluster: Cluster, key: JobKey, now: datetime) -> Pass:
    """`now` is aware of its time zone. Raises what `cluster` raises: the pass is to be tried again later.

    The order makes it safe to end at any point: nothing is done that the stored status does not know of, and whatever
    was not done is found missing by the next pass.
    """
    job = await cluster.get_job(key)
    if job is None:
        return Pass(status=None)
    observed = await cluster.observe(job)
    todo = plan(job, observed, now)
    if not todo.wants_room:
        return await _carried_out(cluster, job, todo, now)
    async with cluster.look_for_room(job) as room:
        return await _carried_out(cluster, job, plan(job, replace(observed, room=room), now), now)


async def _carried_out(cluster: Cluster, job: Job, todo: Plan, now: datetime) -> Pass:
    if is_due(job, todo, now):
        try:
            await cluster.write_status(job, todo.status)
        except Conflict:
            return Pass(status=job.status, requeue_after=0)
    try:
        await _act(cluster, job, todo)
    finally:
        # No later pass would tell of what this one has persisted.
        for event in todo.events:
            await cluster.emit(job, event)
    if todo.delete_job:
        try:
            await cluster.delete_job(job)
        except Conflict:
            return Pass(status=todo.status, requeue_after=0)
    return Pass(status=todo.status, requeue_after=todo.requeue_after)


async def _act(cluster: Cluster, job: Job, todo: Plan) -> None:
    await _at_once(lambda delete: _be_rid_of(cluster, job, delete), todo.deletes)
    # Pods need what they mount, and the name under which they find each other.
    await _at_once(lambda create: cluster.create(job, create), [c for c in todo.creates if not _is_pod(c)])
    await _at_once(lambda create: cluster.create(job, create), [c for c in todo.creates if _is_pod(c)])


async def _be_rid_of(cluster: Cluster, job: Job, pod: DeletePod | EndPod) -> None:
    await (cluster.end_pod(job, pod) if isinstance(pod, EndPod) else cluster.delete_pod(job, pod))


def _is_pod(create: Create) -> bool:
    return bool(create.manifest["kind"] == "Pod")


async def _at_once(act: Callable[[_Action], Awaitable[None]], actions: Sequence[_Action]) -> None:
    """All of `actions` in parallel, a bounded number at a time. One that fails does not stop the others."""
    slots = asyncio.Semaphore(_PARALLEL)

    async def bounded(action: _Action) -> None:
        async with slots:
            await act(action)

    results = await asyncio.gather(*map(bounded, actions), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
