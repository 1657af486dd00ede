"""What the reconciler needs of a cluster. Two implementations: Kubernetes, and processes on this machine."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.observed import Job, JobKey, Observed
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Event
from ringtrain_operator.plan.room import Room


class Conflict(Exception):
    """The job changed since it was read: plan again."""


class Rejected(Exception):
    """The cluster will not have an object as it is (quota, admission, a name that is taken); the message says why."""


class Cluster(Protocol):
    async def get_job(self, key: JobKey) -> Job | None:
        """None when it does not exist."""
        ...

    async def observe(self, job: Job) -> Observed: ...

    def look_for_room(self, job: Job) -> AbstractAsyncContextManager[Room]:
        """What is free on the nodes, for a pass over `job`. Until the block ends no other pass is shown it; then it is
        without what was taken of it."""
        ...

    async def write_status(self, job: Job, status: TrainingJobStatus) -> None:
        """Raises Conflict when `job.resource_version` is no longer the newest."""
        ...

    async def delete_pod(self, job: Job, delete: DeletePod) -> None:
        """A pod that is gone, or is another one by now (UID), is left alone."""
        ...

    async def end_pod(self, job: Job, end: EndPod) -> None:
        """A pod that is gone, or is another one by now (UID), is left alone."""
        ...

    async def create(self, job: Job, create: Create) -> None:
        """An object of that name that exists already and is the job's is left as it is.

        Raises Rejected; its message is `Observed.refused` of the following passes until a create succeeds.
        """
        ...

    async def delete_job(self, job: Job) -> None:
        """With all that it owns. Raises Conflict when the job changed since it was read."""
        ...

    async def emit(self, job: Job, event: Event) -> None: ...
