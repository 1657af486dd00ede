"""What cannot change once a job has started.

All its pods must be told alike: a replacement that was told otherwise would wait for ever, or silently train another
model than its peers. So most of the spec changes only while there are no pods; what its checkpoints are, and where they
lie, never.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ringtrain_operator.api.problem import Location, Problem, show
from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus

_FREE: dict[str, Any] = {
    "suspend": True,
    "active_deadline_seconds": True,
    "pending_deadline_seconds": True,
    "ttl_seconds_after_finished": True,
    "clean_pod_policy": True,
    "managed_by": True,
    "image": True,
    "image_pull_policy": True,
    "gpu_resource": True,
    "resources": True,
    "shm_size": True,
    "checkpoint": {"keep": True, "keep_every": True},
    "fault_tolerance": {field: True for field in FaultTolerance.model_fields if field != "preflight"},
    "elastic": True,
    "spare_replicas": True,
    "scheduling": {
        "scheduler_name": True,
        "priority_class_name": True,
        "topology_key": True,
        "topology_policy": True,
    },
    "template": True,
    # All pods start anew when it changes.
    "replicas": True,
}
"""Fields that may differ from pod to pod, or that pods are not told."""
_FOR_LIFE = (("checkpoint", "volume"), ("trainer", "model"))


def started_with(spec: TrainingJobSpec) -> str:
    """For `status.startedWith`: the fixed fields and their values, as JSON."""
    return json.dumps(_fixed(spec), sort_keys=True, separators=(",", ":"))


def problems(status: TrainingJobStatus, spec: TrainingJobSpec) -> Iterator[Problem]:
    """Every fixed field in which `spec` is not what the job has started with; none before it has."""
    before = json.loads(status.started_with) if status.started_with else {}
    now = _fixed(spec)
    if not status.members or spec.suspend:
        yield from _changes(_for_life(before), _for_life(now), ("spec",), "once the job has started: set it back to {}")
        return
    yield from _changes(before, now, ("spec",), "while the job has pods: set it back to {}, or suspend the job first")
    if spec.checkpoint is None and spec.replicas != len(status.members):
        size = len(status.members)
        yield Problem(
            ("spec", "replicas"),
            f"cannot change from {size} to {spec.replicas} without spec.checkpoint, for training would start over: set "
            f"it back to {size}",
        )


def _fixed(spec: TrainingJobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude=_FREE)


def _for_life(fixed: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `fixed` that does not even change while there are no pods."""
    return {
        outer: {inner: fixed[outer][inner]} if fixed[outer] is not None else None
        for outer, inner in _FOR_LIFE
        if outer in fixed and (fixed[outer] is None or inner in fixed[outer])
    }


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], location: Location, advice: str) -> Iterator[Problem]:
    """`advice` has a place for the value before."""
    # A field that another release of the operator did not know has no value to compare with.
    for field in (field for field in before if field in now):
        old, new = before[field], now[field]
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, (*location, field), advice)
        elif old != new:
            text = f"cannot change from {show(old)} to {show(new)} {advice.format(show(old))}"
            yield Problem((*location, field), text)
