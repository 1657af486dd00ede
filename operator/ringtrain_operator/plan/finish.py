"""The end of a job, good or bad, and what is cleaned up after it. Terminal stays terminal."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain.contract.report import JobReport
from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.budget import GivenUp, charged
from ringtrain_operator.plan.conditions import COMPLETE, FAILED, RUNNING, with_condition
from ringtrain_operator.plan.failures import is_done, termination_message
from ringtrain_operator.plan.in_place import new_failures
from ringtrain_operator.plan.members import current_pods, delete, is_live
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Job, Pod
from ringtrain_operator.plan.progress import follow, with_progress_text
from ringtrain_operator.plan.result import Event, Plan

GRACE = timedelta(seconds=30)
"""Pods of a job that succeeded get it to end by themselves: they were told by the coordinator too."""
_LOOK_AGAIN_SECONDS = 5.0


def is_over(status: TrainingJobStatus, pods: Sequence[Pod], report: JobReport | None) -> bool:
    """All rounds are trained: the coordinator says so, or a pod that stands for a replica ended well."""
    return (report is not None and report.finished) or any(map(is_done, current_pods(status.members, pods)))


def succeeded(
    job: Job,
    status: TrainingJobStatus,
    pods: Sequence[Pod],
    tolerance: FaultTolerance,
    total_rounds: int | None,
    now: datetime,
) -> TrainingJobStatus:
    """`total_rounds` as configured; None when only the trainer knows."""
    last_words = (termination_message(pod.message) for pod in current_pods(status.members, pods) if is_done(pod))
    final = next((said for said in last_words if said is not None), None)
    if final is not None:
        report = JobReport(
            progress=final.progress,
            last_checkpoint=final.last_checkpoint,
            rank_failures=final.rank_failures,
        )
        status, _ = follow(status, report)
        status, last = new_failures(job, status, pods, report, tolerance.rules)
        status = charged(status, last, tolerance, now)
    total = total_rounds or status.total_rounds
    status = with_progress_text(status.model_copy(update={"total_rounds": total, "round": total or status.round}))
    rounds = f"trained {status.round} rounds" if status.round else "training is done"
    restarts = f", with {status.restarts} restart{'s' * (status.restarts != 1)}" if status.restarts else ""
    message = rounds + restarts
    ended = _ended(status, JobPhase.SUCCEEDED, message, now)
    return with_condition(ended, COMPLETE, True, "Succeeded", message, now)


def failed(status: TrainingJobStatus, given_up: GivenUp, now: datetime) -> TrainingJobStatus:
    ended = _ended(status, JobPhase.FAILED, given_up.message, now)
    return with_condition(ended, FAILED, True, given_up.reason, given_up.message, now)


def changed_too_late(job: Job) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """The status of a terminal job, and what to tell a user whose new spec comes after the end."""
    if job.generation == job.status.observed_generation:
        return job.status, ()
    message = (
        f"the job has {job.status.phase.value.lower()} and does not begin anew: delete it, then apply the changed "
        "spec, and it goes on from the newest checkpoint on its volume; of a spec that is changed after the end, only "
        "ttlSecondsAfterFinished and cleanPodPolicy are looked at"
    )
    status = job.status.model_copy(update={"observed_generation": job.generation})
    return status, (Event("Warning", "SpecIgnored", message),)


def clean_up(
    status: TrainingJobStatus, spec: TrainingJobSpec | None, pods: Sequence[Pod], health: NodeHealth, now: datetime
) -> Plan:
    """What is left to do for a terminal `status`, by the policies of `spec`, or by default when it cannot be read."""
    left = _seconds_to_keep(status, spec, now)
    if left == 0:
        return Plan(status=status, delete_job=True)
    policy = spec.clean_pod_policy if spec is not None else "Running"
    grace = timedelta(0)
    if status.phase is JobPhase.SUCCEEDED and status.completion_time is not None:
        grace = max(grace, status.completion_time + GRACE - now)
    current = current_pods(status.members, pods)
    live = [pod for pod in pods if is_live(pod)]
    doomed = [] if policy == "None" else [pod for pod in live if not grace or pod not in current]
    if policy == "All":
        doomed += [pod for pod in pods if not is_live(pod)]
    deletes = tuple(action for pod in doomed if (action := delete(pod, health)) is not None)
    ready = sum(pod.ready for pod in current)
    pauses = [left] if left is not None else []
    if doomed or (live and policy != "None"):
        pauses.append(grace.total_seconds() or _LOOK_AGAIN_SECONDS)
    return Plan(
        status=status.model_copy(update={"ready": ready}), deletes=deletes, requeue_after=min(pauses, default=None)
    )


def _seconds_to_keep(status: TrainingJobStatus, spec: TrainingJobSpec | None, now: datetime) -> float | None:
    """Until the job itself is deleted; None: never."""
    if spec is None or spec.ttl_seconds_after_finished is None or status.completion_time is None:
        return None
    return max(0, spec.ttl_seconds_after_finished - (now - status.completion_time).total_seconds())


def _ended(status: TrainingJobStatus, phase: JobPhase, message: str, now: datetime) -> TrainingJobStatus:
    ended = status.model_copy(
        update={"phase": phase, "message": message, "completion_time": now, "pending_since": None}
    )
    return with_condition(ended, RUNNING, False, phase.value, message, now)
