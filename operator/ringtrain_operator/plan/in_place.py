"""Ranks that their agents started again in their pods: counted like pods that were replaced."""

from ringtrain.contract import exit_codes
from ringtrain.contract.report import JobReport, RankFailure
from ringtrain_operator.api.status import FAILURES_KEPT, Failure, TrainingJobStatus
from ringtrain_operator.plan.failures import LONGEST_MESSAGE
from ringtrain_operator.plan.names import pod_name
from ringtrain_operator.plan.observed import Job


def new_failures(
    job: Job, status: TrainingJobStatus, report: JobReport | None
) -> tuple[TrainingJobStatus, list[Failure]]:
    """Those that were not counted yet, of pods that stand for a replica, and `status` as it knows of them."""
    counted = {member.index: (member.epoch, member.in_place_restarts) for member in status.members}
    found = []
    for failure in sorted(report.rank_failures if report is not None else (), key=lambda one: one.number):
        epoch, number = counted.get(failure.replica, (-1, 0))
        if failure.epoch == epoch and failure.number > number:
            counted[failure.replica] = (epoch, failure.number)
            found.append(_failure(job, failure))
    if not found:
        return status, []
    members = [member.model_copy(update={"in_place_restarts": counted[member.index][1]}) for member in status.members]
    return (
        status.model_copy(
            update={
                "members": tuple(members),
                "failures": (*status.failures, *found)[-FAILURES_KEPT:],
                "restarts": status.restarts + len(found),
                "counted_restarts": status.counted_restarts + sum(failure.counted for failure in found),
            }
        ),
        found,
    )


def _failure(job: Job, failure: RankFailure) -> Failure:
    return Failure(
        time=failure.time.replace(microsecond=0),
        replica=failure.replica,
        rank=failure.rank,
        pod=pod_name(job.key.name, failure.replica, failure.epoch),
        reason=exit_codes.reason(failure.exit_code),
        exit_code=failure.exit_code,
        message=failure.message[:LONGEST_MESSAGE],
        counted=failure.exit_code not in exit_codes.NOT_COUNTED,
        in_place=True,
    )
