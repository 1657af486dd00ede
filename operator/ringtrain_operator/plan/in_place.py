"""Ranks that their agents started again in their pods: failures like those of pods that are replaced."""

from collections.abc import Sequence

from ringtrain.contract import exit_codes
from ringtrain.contract.report import JobReport, RankFailure
from ringtrain_operator.api.spec import FailureAction, FailureRule
from ringtrain_operator.api.status import FAILURES_KEPT, Failure, TrainingJobStatus
from ringtrain_operator.plan.failure_policy import decide
from ringtrain_operator.plan.failures import LONGEST_MESSAGE
from ringtrain_operator.plan.names import pod_name
from ringtrain_operator.plan.observed import Job, Pod


def new_failures(
    job: Job,
    status: TrainingJobStatus,
    pods: Sequence[Pod],
    report: JobReport | None,
    rules: Sequence[FailureRule],
) -> tuple[TrainingJobStatus, list[Failure]]:
    """Those that were not known yet, of pods that stand for a replica, and `status` as it knows of them; its counters
    of restarts do not."""
    known = {member.index: (member.epoch, member.in_place_restarts) for member in status.members}
    nodes = {(pod.index, pod.epoch): pod.node for pod in pods}
    found = []
    for failure in sorted(report.rank_failures if report is not None else (), key=lambda one: one.number):
        epoch, number = known.get(failure.replica, (-1, 0))
        if failure.epoch == epoch and failure.number > number:
            known[failure.replica] = (epoch, failure.number)
            found.append(_failure(job, failure, nodes.get((failure.replica, epoch)), rules, status.generation))
    if not found:
        return status, []
    members = [member.model_copy(update={"in_place_restarts": known[member.index][1]}) for member in status.members]
    failures = (*status.failures, *found)[-FAILURES_KEPT:]
    return status.model_copy(update={"members": tuple(members), "failures": failures}), found


def _failure(
    job: Job, failure: RankFailure, node: str | None, rules: Sequence[FailureRule], generation: str
) -> Failure:
    """`generation` is the newest that trained."""
    reason = exit_codes.reason(failure.exit_code)
    action = decide(rules, reason, failure.exit_code, frozenset())
    return Failure(
        time=failure.time.replace(microsecond=0),
        replica=failure.replica,
        rank=failure.rank,
        pod=pod_name(job.key.name, failure.replica, failure.epoch),
        node=node,
        reason=reason,
        exit_code=failure.exit_code,
        message=failure.message[:LONGEST_MESSAGE],
        action=action,
        counted=action is FailureAction.RESTART,
        in_place=True,
        generation=failure.generation or generation,
    )
