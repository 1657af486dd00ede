"""Whether a job's spec can be worked with."""

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan import fixed
from ringtrain_operator.plan.observed import Job


def accept(job: Job) -> TrainingJobSpec:
    """Raises InvalidSpec with everything that is wrong, also with what cannot change once the job has pods."""
    spec = parse(job.key.name, job.spec)
    changed = tuple(fixed.problems(job.status, spec))
    if changed:
        raise InvalidSpec(changed)
    return spec
