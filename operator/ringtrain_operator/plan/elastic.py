"""With how many replicas a job goes on when not all of them find a place, and when it grows again.

A job of another size is other pods, as after an edit of spec.replicas: all end, and others begin.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain_operator.api.spec import Elastic, TrainingJobSpec
from ringtrain_operator.api.status import Reduced, TrainingJobStatus
from ringtrain_operator.plan.members import current_pods, is_live
from ringtrain_operator.plan.observed import Pod
from ringtrain_operator.plan.result import Event
from ringtrain_operator.plan.waiting import UNSCHEDULABLE, causes


def settled(spec: TrainingJobSpec, status: TrainingJobStatus) -> TrainingJobStatus:
    """`status`, which is reduced no more where `spec` does not allow it, or wants another size than then."""
    return status if _is_reduced(spec, status) else status.model_copy(update={"reduced": None})


def size(spec: TrainingJobSpec, status: TrainingJobStatus) -> int:
    """Replicas that the job is to have now."""
    reduced = settled(spec, status).reduced
    return reduced.replicas if reduced is not None else spec.replicas


def is_other(spec: TrainingJobSpec, status: TrainingJobStatus) -> bool:
    """The members of `status` were told of another size than `spec` wants."""
    return settled(spec, status) != status or len(status.members) != size(spec, status)


def at_size(spec: TrainingJobSpec, replicas: int) -> TrainingJobSpec:
    """What pods of a job with so many replicas are told. The built-in trainer accumulates more often, so that its
    global batch stays; where that is not whole, it is rounded up."""
    if replicas == spec.replicas or spec.trainer is None:
        return spec.model_copy(update={"replicas": replicas})
    batch = spec.trainer.batch
    accumulation = -(-spec.replicas * batch.accumulation // replicas)
    trainer = spec.trainer.model_copy(update={"batch": batch.model_copy(update={"accumulation": accumulation})})
    return spec.model_copy(update={"replicas": replicas, "trainer": trainer})


def new_size(
    spec: TrainingJobSpec, status: TrainingJobStatus, pods: Sequence[Pod], holders: Sequence[Pod], now: datetime
) -> int | None:
    """Another number of replicas to go on with; None: the present one. `holders` hold places for the missing ones."""
    elastic, members = spec.elastic, len(status.members)
    current = current_pods(status.members, pods)
    if elastic is None or len(current) < members:
        return None
    placed = _placed(current, elastic, now)
    if placed is not None and placed < members:
        return _fitting(spec, elastic.min_replicas, placed)
    live = [holder for holder in holders if is_live(holder)]
    held = _placed(live, elastic, now)
    if placed is None or held is None or len(live) < missing(spec, status, now):
        return None
    return _fitting(spec, members + 1, min(members + held, spec.replicas))


def smaller_size(spec: TrainingJobSpec, status: TrainingJobStatus, fit: int, now: datetime) -> int | None:
    """A number of replicas to go on with when room was found for `fit` only, for as long as may be waited."""
    if spec.elastic is None or status.pending_since is None:
        return None
    if now - status.pending_since < timedelta(seconds=spec.elastic.wait_seconds):
        return None
    return _fitting(spec, spec.elastic.min_replicas, fit)


def begun_smaller(
    spec: TrainingJobSpec, status: TrainingJobStatus, replicas: int, why: str, now: datetime
) -> tuple[TrainingJobStatus, Event]:
    """`status` of a job without members that begins with fewer replicas than it wants, and what is told of it."""
    reduced = Reduced(replicas=replicas, of=spec.replicas, since=now, reason=why)
    event = Event("Warning", "Reduced", f"begins with {replicas} of {spec.replicas} replicas; {why}")
    return status.model_copy(update={"reduced": reduced}), event


def resized(
    spec: TrainingJobSpec,
    status: TrainingJobStatus,
    pods: Sequence[Pod],
    replicas: int,
    now: datetime,
    why: str = "",
) -> tuple[TrainingJobStatus, Event]:
    """`status` of a job that goes on with so many, and what is told of it. `why`: unless the pods tell."""
    why = causes(current_pods(status.members, pods)) or why
    why = why or (status.reduced.reason if status.reduced is not None else "")
    reduced = Reduced(replicas=replicas, of=spec.replicas, since=now, reason=why) if replicas < spec.replicas else None
    if replicas > len(status.members):
        event = Event("Normal", "Grown", told(status, replicas))
    else:
        event = Event("Warning", "Reduced", f"{told(status, replicas)}; {why}")
    return status.model_copy(update={"reduced": reduced}), event


def told(status: TrainingJobStatus, replicas: int) -> str:
    """That a job with the members of `status` goes on with so many."""
    return f"from {len(status.members)} to {replicas} replicas: all save a checkpoint and start anew from it"


def missing(spec: TrainingJobSpec, status: TrainingJobStatus, now: datetime) -> int:
    """Replicas that the job lacks and tries to get back."""
    if spec.elastic is None or status.reduced is None:
        return 0
    due = now - status.reduced.since >= timedelta(seconds=spec.elastic.grow_after_seconds)
    return spec.replicas - status.reduced.replicas if due else 0


def has_place(pod: Pod) -> bool:
    return pod.node is not None and is_live(pod) and not pod.deleting


def _is_reduced(spec: TrainingJobSpec, status: TrainingJobStatus) -> bool:
    reduced, elastic = status.reduced, spec.elastic
    return (
        reduced is not None
        and elastic is not None
        and reduced.of == spec.replicas
        and reduced.replicas >= elastic.min_replicas
    )


def _placed(pods: Sequence[Pod], elastic: Elastic, now: datetime) -> int | None:
    """How many of `pods` have a node; None while it is open whether the others get one."""
    others = [pod for pod in pods if not has_place(pod)]
    wait = timedelta(seconds=elastic.wait_seconds)
    given_up = [p for p in others if p.waiting_reason == UNSCHEDULABLE and now - p.created >= wait]
    return len(pods) - len(others) if len(given_up) == len(others) else None


def _fitting(spec: TrainingJobSpec, least: int, most: int) -> int | None:
    """The largest number of replicas that the pipelines fit."""
    fitting = (n for n in range(most, least - 1, -1) if not spec.parallelism.misfit(n, spec.procs_per_replica))
    return next(fitting, None)
