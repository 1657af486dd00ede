"""GET /status and GET /readyz."""

from collections.abc import Sequence

from ringtrain.agent.liveness import verdict
from ringtrain.agent.record import RankRecord
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, JobReport


def status(
    environment: ReplicaEnvironment, records: Sequence[RankRecord], report: JobReport | None, now: float
) -> AgentStatus:
    """`now` is monotonic seconds, as of the records."""
    judged = verdict(records, environment.timeouts, now)
    return AgentStatus(
        job=environment.job,
        replica=environment.replica,
        epoch=environment.epoch,
        live=judged.live,
        reason=judged.reason,
        ranks=tuple(record.status(now) for record in records),
        job_report=report,
    )


def unready_reason(records: Sequence[RankRecord]) -> str:
    """Why the replica does not train; empty when it does. A command without a session trains while it runs."""
    for record in records:
        if record.phase in (Phase.WAITING, Phase.CHECKING) or (record.judged and record.phase is Phase.STARTING):
            return f"rank {record.rank} is {record.phase}"
    return ""
