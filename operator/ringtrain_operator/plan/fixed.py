"""What all pods of a job must be told alike, so that it cannot change once there are pods: a replacement that was told
otherwise would wait for ever, or silently train another model than its peers."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ringtrain_operator.api.problem import Location, Problem, show
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus

_FREE: dict[str, Any] = {
    "image": True,
    "image_pull_policy": True,
    "gpu_resource": True,
    "resources": True,
    "shm_size": True,
    "checkpoint": {"keep": True, "keep_every": True},
    "fault_tolerance": True,
    "template": True,
    # Known from the members.
    "replicas": True,
}
"""Fields that may differ from pod to pod."""


def started_with(spec: TrainingJobSpec) -> str:
    """For `status.startedWith`: the fixed fields and their values, as JSON."""
    return json.dumps(_fixed(spec), sort_keys=True, separators=(",", ":"))


def problems(status: TrainingJobStatus, spec: TrainingJobSpec) -> Iterator[Problem]:
    """Every fixed field in which `spec` is not what the pods were made from; none while there are no pods."""
    if not status.members:
        return
    before = json.loads(status.started_with) if status.started_with else {}
    now = _fixed(spec) | {"replicas": spec.replicas}
    yield from _changes(before | {"replicas": len(status.members)}, now, ("spec",))


def _fixed(spec: TrainingJobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude=_FREE)


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], location: Location) -> Iterator[Problem]:
    # A field that another release of the operator did not know has no value to compare with.
    for field in (field for field in before if field in now):
        old, new = before[field], now[field]
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, (*location, field))
        elif old != new:
            yield Problem(
                (*location, field),
                f"cannot change from {show(old)} to {show(new)} once the job has started: set it back to {show(old)}",
            )
