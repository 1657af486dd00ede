"""Whether a job's spec can be worked with."""

from collections.abc import Mapping
from typing import Any

from ringtrain_operator.api.problem import Problem, show
from ringtrain_operator.api.pruning import pruned
from ringtrain_operator.api.spec import CONTROLLER, TrainingJobSpec
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan import fixed
from ringtrain_operator.plan.defaults import defaults_of, with_defaults
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
    defaults = defaults_of(job)
    spec = with_defaults(job.spec, defaults)
    try:
        return parse(job.key.name, spec)
    except InvalidSpec as error:
        if not job.status.started_with:
            raise (InvalidSpec((*error.problems, _told(defaults))) if defaults else error) from None
        # It may have begun under an earlier release, with fields that this one knows no more.
        return parse(job.key.name, pruned(TrainingJobSpec, spec))


def _told(defaults: Mapping[str, Any]) -> Problem:
    """Where else a field that the job does not have may come from."""
    return Problem(
        ("spec",), f"administrators' defaults were added, which the job's own fields override: {show(defaults)}"
    )
