"""What is created, and what stands in the way of it."""

from collections.abc import Sequence
from datetime import datetime

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import Member, TrainingJobStatus
from ringtrain_operator.plan import children, pods
from ringtrain_operator.plan.backoff import seconds_to_wait
from ringtrain_operator.plan.members import missing
from ringtrain_operator.plan.observed import Job, Observed, Pod
from ringtrain_operator.plan.pod_group import pod_group
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


def due(status: TrainingJobStatus, own: Sequence[Pod], now: datetime) -> list[Member]:
    """Those that may get a pod now, if there is room; `own` are the job's pods. A pod follows only when no other of its
    replica may run."""
    absent = missing(status.members, own)
    return [member for member in absent if seconds_to_wait(member.index, status.failures, now) == 0]


def creations(
    job: Job, spec: TrainingJobSpec, status: TrainingJobStatus, observed: Observed, replicas: Sequence[Member]
) -> tuple[Create, ...]:
    """What the job lacks, all at once, and pods for `replicas`."""
    manifests = []
    if not observed.service_exists:
        manifests.append(children.service(job))
    if observed.agents_from is not None and not observed.policy_exists:
        manifests.append(children.network_policy(job, observed.agents_from))
    template = spec.checkpoint.volume.claim_template if spec.checkpoint else None
    if template is not None and not observed.claim_exists:
        manifests.append(children.claim(job, template))
    group = pod_group(job, spec)
    if group is not None and replicas:
        manifests.append(group)
    off = [node.name for node in status.excluded_nodes]
    manifests += [pods.pod(job, spec, member.index, member.epoch, off, status.pod_group) for member in replicas]
    return tuple(map(Create, manifests))
