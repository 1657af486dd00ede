"""The phase of a job whose pods are cared for, and one sentence on it."""

from collections.abc import Sequence

from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.failures import describe
from ringtrain_operator.plan.members import current_pods, is_live, pod_of
from ringtrain_operator.plan.observed import Pod, PodPhase
from ringtrain_operator.plan.waiting import causes, name

_TRAINS = frozenset({Phase.COMPILING, Phase.TRAINING, Phase.CHECKPOINTING, Phase.DONE})


def phase_of(status: TrainingJobStatus, pods: Sequence[Pod], report: JobReport | None) -> JobPhase:
    """`status` still has the phase before this pass."""
    complete = all_run(status, pods)
    if complete and _trains(status, report):
        return JobPhase.RUNNING
    if status.phase in (JobPhase.RUNNING, JobPhase.RESTARTING):
        return JobPhase.RESTARTING
    return JobPhase.STARTING if complete else JobPhase.PENDING


def all_run(status: TrainingJobStatus, pods: Sequence[Pod]) -> bool:
    running = [pod for pod in current_pods(status.members, pods) if pod.phase is PodPhase.RUNNING and not pod.deleting]
    return len(running) == len(status.members)


def message_of(status: TrainingJobStatus, pods: Sequence[Pod], hindrance: str) -> str:
    """`status` has its phase; `hindrance` is what keeps missing pods from being created, as far as known."""
    waited_for = _waited_for(status, pods, hindrance)
    match status.phase:
        case JobPhase.RUNNING:
            return f"{_all(len(status.members))} in generation {status.generation}{_of_all(status)}"
        case JobPhase.RESTARTING if status.failures:
            return f"{waited_for}; last failure: {describe(status.failures[-1])}"
        case _:
            return waited_for


def _all(replicas: int) -> str:
    return "the only replica trains" if replicas == 1 else f"all {replicas} replicas train"


def _of_all(status: TrainingJobStatus) -> str:
    return f", of {status.replicas}: {status.reduced.reason}" if status.reduced is not None else ""


def _trains(status: TrainingJobStatus, report: JobReport | None) -> bool:
    was_running = status.phase is JobPhase.RUNNING and _is_current(status.generation, status)
    if report is None:
        return was_running
    if report.generation is None or not _is_current(report.generation, status):
        return False
    # A rank that trains waits for others' gradients now and then; one that was said to compile may read a checkpoint.
    return report.phase in _TRAINS or (report.phase in (Phase.WAITING, Phase.RESTORING) and was_running)


def _is_current(generation: str, status: TrainingJobStatus) -> bool:
    # A job that goes on with the volume of another is numbered above that one's checkpoints, and so above its epoch.
    return bool(generation) and Generation.parse(generation).epoch >= status.epoch


def _waited_for(status: TrainingJobStatus, pods: Sequence[Pod], hindrance: str) -> str:
    absent = [member.index for member in status.members if pod_of(member, pods) is None]
    if absent:
        stale = [pod.name for pod in pods if pod.index in absent and is_live(pod)]
        text = f"waiting for {name(absent)} to be created"
        if hindrance:
            return f"{text}: {hindrance}"
        return f"{text}: pod {', '.join(stale)} must end first" if stale else text
    current = current_pods(status.members, pods)
    known = causes(current)
    if known:
        return known
    pending = [pod for pod in current if pod.phase is not PodPhase.RUNNING]
    if pending:
        # A volume that cannot be mounted, for one, is only told in the pod's events.
        return f"waiting for {name([pod.index for pod in pending])} to run: kubectl describe pod {pending[0].name}"
    return "waiting for the ranks to meet"
