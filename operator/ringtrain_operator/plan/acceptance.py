"""Whether a job's spec can be worked with."""

from ringtrain_operator.api.problem import Problem
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan.observed import Job


def accept(job: Job) -> TrainingJobSpec:
    """Raises InvalidSpec with everything that is wrong, also with what cannot change once the job has pods."""
    spec = parse(job.key.name, job.spec)
    size = len(job.status.members)
    if size and size != spec.replicas:
        text = f"cannot change from {size} to {spec.replicas} once the job has started: set it back to {size}"
        raise InvalidSpec((Problem(("spec", "replicas"), text),))
    return spec
