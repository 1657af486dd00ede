"""Which failures are one: what fails before the next generation has begun mostly has one cause.

A rank that fails again before that was restarted once more, and begins another incident.
"""

from collections.abc import Iterable

from ringtrain_operator.api.status import Failure, Incident
from ringtrain_operator.plan.failures import who_failed


def of(before: Incident | None, failure: Failure) -> Incident:
    """The incident of which `failure` is part: `before`, with it, or a new one."""
    if before is None or not _takes(before, failure):
        before = Incident(generation=failure.generation)
    return before.model_copy(
        update={"failed": (*before.failed, who_failed(failure)), "counted": before.counted or failure.counted}
    )


def begins(incident: Incident) -> bool:
    """Its last failure is its first."""
    return len(incident.failed) == 1


def grouped(failures: Iterable[Failure]) -> list[list[Failure]]:
    """By incident; the oldest first, as they are."""
    groups: list[list[Failure]] = []
    incident = None
    for failure in failures:
        incident = of(incident, failure)
        if begins(incident):
            groups.append([])
        groups[-1].append(failure)
    return groups


def _takes(incident: Incident, failure: Failure) -> bool:
    return incident.generation == failure.generation and who_failed(failure) not in incident.failed
