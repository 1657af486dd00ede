"""A machine that has room for some pods only, as a cluster would: the others wait, unschedulable, until one ends."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ringtrain_operator.local.cluster import LocalCluster
from ringtrain_operator.plan.members import is_live
from ringtrain_operator.plan.names import LABEL_EPOCH, LABEL_HOLDING, LABEL_REPLICA
from ringtrain_operator.plan.observed import Job, Node, Observed, Pod, PodPhase
from ringtrain_operator.plan.result import Create, DeletePod

NODE = "this-machine"


class CrowdedCluster(LocalCluster):
    def __init__(self, *given: Any, room: int) -> None:
        super().__init__(*given)
        self.room = room
        self._waiting: dict[str, tuple[Create, Pod]] = {}

    @property
    def pods(self) -> tuple[Pod, ...]:
        placed = (replace(pod, node=NODE, spec_generation=1) for pod in super().pods)
        return (*placed, *(pod for _, pod in self._waiting.values()))

    async def observe(self, job: Job) -> Observed:
        for name, (create, _) in list(self._waiting.items()):
            if self._has_room():
                del self._waiting[name]
                await super().create(job, create)
        node = Node(name=NODE, ready=True, since=datetime.now(UTC))
        return replace(await super().observe(job), nodes={NODE: node})

    async def create(self, job: Job, create: Create) -> None:
        metadata = create.manifest["metadata"]
        if create.manifest["kind"] != "Pod" or self._has_room():
            await super().create(job, create)
        elif metadata["name"] not in {pod.name for pod in self.pods}:
            self._waiting[metadata["name"]] = (create, _unschedulable(metadata))
            self.changed.set()

    async def delete_pod(self, job: Job, delete: DeletePod) -> None:
        if delete.name in self._waiting:
            del self._waiting[delete.name]
            self.changed.set()
        else:
            await super().delete_pod(job, delete)

    def _has_room(self) -> bool:
        return sum(map(is_live, super().pods)) < self.room


def _unschedulable(metadata: dict[str, Any]) -> Pod:
    labels = metadata["labels"]
    return Pod(
        name=metadata["name"],
        uid=metadata["name"],
        index=int(labels[LABEL_REPLICA]),
        epoch=int(labels[LABEL_EPOCH]),
        phase=PodPhase.PENDING,
        created=datetime.now(UTC),
        waiting_reason="Unschedulable",
        waiting_message="the machine is full",
        spec_generation=1,
        holding=LABEL_HOLDING in labels,
    )
