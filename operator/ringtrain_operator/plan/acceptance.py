"""Whether a job's spec can be worked with."""

from ringtrain_operator.api.pruning import pruned
from ringtrain_operator.api.spec import CONTROLLER, TrainingJobSpec
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan import fixed
from ringtrain_operator.plan.observed import Job


def is_ours(job: Job) -> bool:
    """No other controller cares for the job."""
    return job.spec.get("managedBy") in (None, CONTROLLER)


def accept(job: Job) -> TrainingJobSpec:
    """Raises InvalidSpec with everything that is wrong, also with what cannot change any more."""
    spec = _parsed(job)
    changed = tuple(fixed.problems(job.status, spec))
    if changed:
        raise InvalidSpec(changed)
    return spec


def _parsed(job: Job) -> TrainingJobSpec:
    try:
        return parse(job.key.name, job.spec)
    except InvalidSpec:
        if not job.status.started_with:
            raise
        # It may have begun under an earlier release, with fields that this one knows no more.
        return parse(job.key.name, pruned(TrainingJobSpec, job.spec))
