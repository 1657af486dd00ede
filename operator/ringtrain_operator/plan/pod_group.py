"""What other schedulers are told of a job, so that they start all of its replicas together, or none."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ringtrain_operator.api import reserved
from ringtrain_operator.api.scheduling import Scheduling
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan.children import metadata
from ringtrain_operator.plan.conditions import SCHEDULABLE, find, with_condition
from ringtrain_operator.plan.members import current_pods, is_live
from ringtrain_operator.plan.observed import Job, Pod
from ringtrain_operator.plan.result import Event

KIND = "PodGroup"
VOLCANO, COSCHEDULING = "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"


class Marks(NamedTuple):
    """What a replica's pod carries beside its own."""

    labels: dict[str, str]
    annotations: dict[str, str]


def marks(job: str, spec: TrainingJobSpec, group: str) -> Marks:
    """`spec` has the number of replicas that they are to be; `group` is that of the status."""
    match spec.scheduling.gang:
        case "Kueue":
            return Marks(
                {reserved.KUEUE_QUEUE: spec.scheduling.queue_name or "", reserved.KUEUE_GROUP: group},
                # When no pod of the group is left, the group has ended: new ones are of another.
                {reserved.KUEUE_COUNT: str(spec.replicas), reserved.KUEUE_RETRIABLE: "false"},
            )
        case "Volcano":
            return Marks({}, {reserved.VOLCANO_GROUP: job})
        case "Coscheduling":
            return Marks({reserved.COSCHEDULING_GROUP: job}, {})
        case _:
            return Marks({}, {})


def pod_group(job: Job, spec: TrainingJobSpec) -> dict[str, Any] | None:
    """The object that the job's scheduler wants beside the pods."""
    scheduling = spec.scheduling
    if scheduling.gang not in ("Volcano", "Coscheduling"):
        return None
    version = VOLCANO if scheduling.gang == "Volcano" else COSCHEDULING
    made = {"minMember": spec.replicas} | (_of_volcano(scheduling) if scheduling.gang == "Volcano" else {})
    return {"apiVersion": version, "kind": KIND, "metadata": metadata(job, job.key.name), "spec": made}


def in_group(job: Job, spec: TrainingJobSpec, status: TrainingJobStatus, pods: Sequence[Pod]) -> TrainingJobStatus:
    """`status` with the group of the pods that are created now. `pods` are the job's own."""
    if spec.scheduling.gang != "Kueue":
        return status.model_copy(update={"pod_group": ""})
    if any(map(is_live, pods)):
        return status
    return status.model_copy(update={"pod_group": f"{job.key.name}-{status.epoch}"})


def queued(
    spec: TrainingJobSpec, status: TrainingJobStatus, pods: Sequence[Pod], now: datetime
) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status` with what is known of Kueue, and an event when it turns out that Kueue does not care for the pods."""
    current = current_pods(status.members, pods)
    if spec.scheduling.gang != "Kueue" or not current:
        return status, ()
    if all(pod.queued for pod in current):
        return with_condition(status, SCHEDULABLE, True, "Queued", "Kueue cares for the pods", now), ()
    text = "Kueue is not there, or its integration of pods is not on for this namespace: pods run outside of any queue"
    before = find(status, SCHEDULABLE)
    events = (Event("Warning", "NotQueued", text),) if before is None or before.reason != "NotQueued" else ()
    return with_condition(status, SCHEDULABLE, False, "NotQueued", text, now), events


def _of_volcano(scheduling: Scheduling) -> dict[str, Any]:
    given = {"queue": scheduling.queue_name, "priorityClassName": scheduling.priority_class_name}
    return {field: value for field, value in given.items() if value is not None}
