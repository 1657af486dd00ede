"""What is created, and what stands in the way of it."""

from collections.abc import Sequence
from datetime import datetime

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan import children, pods
from ringtrain_operator.plan.backoff import seconds_to_wait
from ringtrain_operator.plan.members import missing
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.result import Create


def obstacle(job: Job, spec: TrainingJobSpec, observed: Observed) -> str:
    """Why nothing may be created yet, in words for the user; empty when it may."""
    claim = spec.checkpoint.volume.claim_name if spec.checkpoint else None
    if claim is not None and not observed.claim_exists:
        return (
            f"waiting for PersistentVolumeClaim {claim}: it does not exist in namespace {job.key.namespace}; create it "
            "or correct spec.checkpoint.volume.claimName"
        )
    foreign = [pod.name for pod in observed.pods if pod.foreign]
    if foreign:
        return f"waiting for pod {foreign[0]}, which belongs to an earlier job of this name, to go"
    return ""


def creations(
    job: Job, spec: TrainingJobSpec, status: TrainingJobStatus, observed: Observed, own: Sequence[Pod], now: datetime
) -> tuple[Create, ...]:
    """What the job lacks, all at once; `own` are its pods. A pod follows only when no other of its replica may run."""
    manifests = []
    if not observed.service_exists:
        manifests.append(children.service(job))
    template = spec.checkpoint.volume.claim_template if spec.checkpoint else None
    if template is not None and not observed.claim_exists:
        manifests.append(children.claim(job, template))
    manifests += [
        pods.pod(job, spec, member.index, member.epoch)
        for member in missing(status.members, own)
        if seconds_to_wait(member.index, status.failures, now) == 0
    ]
    return tuple(map(Create, manifests))
