"""The way to a hostile world: it shows things late, refuses requests and kills its operator."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from operator_.plan.hostile_world import World
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain_operator.api.status import TrainingJobStatus, as_stored
from ringtrain_operator.cluster.protocol import Conflict
from ringtrain_operator.plan.names import LABEL_EPOCH, LABEL_HOLDING, LABEL_REPLICA
from ringtrain_operator.plan.observed import Job, JobKey, Observed, Pod, PodPhase
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Event
from ringtrain_operator.plan.room import Place, Room


class Killed(BaseException):
    """The operator's process is gone: nothing of this pass goes on."""


class ApiDown(Exception):
    """A request failed."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What befalls the operator at one of its calls, counted from the pass's start."""

    call: int
    kind: Literal["killed", "error", "conflict"]
    after: bool
    """The call still takes effect."""


class HostileCluster:
    """One operator process's connection to the world, for one pass."""

    def __init__(self, world: World, trouble: Trouble | None, lag: int) -> None:
        """`lag` is how many changes the view is behind, as far as the promise of Observed allows."""
        self._world = world
        self._trouble = trouble
        self._lag = lag
        self._calls = 0
        self._free: int | None = None
        """Places that the operator was shown, and has not taken."""
        self._dead = False

    async def get_job(self, key: JobKey) -> Job | None:
        self._call()
        return None if self._world.job_deleted else self._world.job

    async def observe(self, job: Job) -> Observed:
        self._call()
        world = self._world
        world.show()
        world.history = world.history[max(0, len(world.history) - 1 - self._lag) :]
        return world.history[0]

    @asynccontextmanager
    async def look_for_room(self, job: Job) -> AsyncIterator[Room]:
        self._call()
        self._free = self._world.free
        yield Room(places=(Place(name="all", free={"pods": Fraction(self._free)}),))

    async def write_status(self, job: Job, status: TrainingJobStatus) -> None:
        late = self._call()
        if job.resource_version != str(self._world.version):
            raise Conflict(str(job.key))
        self._world.stored(TrainingJobStatus.model_validate_json(json.dumps(as_stored(status))))
        self._fail(late)

    async def delete_pod(self, job: Job, delete: DeletePod) -> None:
        late = self._call()
        self._world.removed(delete)
        self._fail(late)

    async def end_pod(self, job: Job, end: EndPod) -> None:
        late = self._call()
        self._world.ended_whole(end)
        self._fail(late)

    async def create(self, job: Job, create: Create) -> None:
        late = self._call()
        metadata = create.manifest["metadata"]
        if create.manifest["kind"] == "Service":
            self._world.service = True
        elif create.manifest["kind"] == "Pod" and metadata["name"] not in self._world.pods:
            labels = metadata["labels"]
            (container,) = create.manifest["spec"]["containers"]
            self._take(holding=LABEL_HOLDING in labels)
            told = ReplicaEnvironment.from_env({entry["name"]: entry["value"] for entry in container["env"]})
            self._world.rates.add(told.communication.rate)
            assert len(self._world.rates) == 1, "pods cannot read each other's gradients"
            self._world.created(
                Pod(
                    name=metadata["name"],
                    uid=f"{metadata['name']}@{self._world.version}.{self._calls}",
                    index=int(labels[LABEL_REPLICA]),
                    epoch=int(labels[LABEL_EPOCH]),
                    phase=PodPhase.PENDING,
                    created=self._world.now,
                    holding=LABEL_HOLDING in labels,
                    spec_generation=job.generation if LABEL_HOLDING in labels else None,
                ),
                told.replicas,
            )
        self._fail(late)

    def _take(self, *, holding: bool) -> None:
        if self._world.gang == "None" or holding:
            return
        assert self._free, "a pod of a gang is created where no room was seen for it"
        self._free -= 1

    async def delete_job(self, job: Job) -> None:
        late = self._call()
        if job.resource_version != str(self._world.version):
            raise Conflict(str(job.key))
        self._world.deleted_job()
        self._fail(late)

    async def emit(self, job: Job, event: Event) -> None:
        late = self._call()
        self._world.events.append(event)
        self._fail(late)

    def _call(self) -> Trouble | None:
        """Raises what befalls this call before it takes effect; returns what does after."""
        if self._dead:
            raise Killed
        self._calls += 1
        trouble = self._trouble if self._trouble is not None and self._trouble.call == self._calls else None
        if trouble is not None and trouble.kind == "conflict":
            self._world.version += 1
            return None
        if trouble is not None and not trouble.after:
            self._fail(trouble)
        return trouble

    def _fail(self, trouble: Trouble | None) -> None:
        if trouble is None:
            return
        if trouble.kind == "killed":
            self._dead = True
            raise Killed
        raise ApiDown
