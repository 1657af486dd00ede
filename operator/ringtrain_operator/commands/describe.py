"""Jobs, ranks and events in words and tables. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from ringtrain.contract.report import AgentStatus, RankStatus
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.client import JobEvent, TrainingJob
from ringtrain_operator.commands.show import Sheet, age, pairs
from ringtrain_operator.local.snapshot import thousands
from ringtrain_operator.plan.observed import Pod, PodPhase

_LOSS_DIGITS = 4


def jobs(found: Iterable[TrainingJob], now: datetime, *, namespaces: bool = False) -> Sheet:
    """A row a job, as `kubectl get tj -o wide` has them."""
    rows = [(job.namespace,) * namespaces + job_row(job, now) for job in found]
    # A watch prints row after row: a cell that is left out would shift the others.
    rows = [(*(cell or "-" for cell in row[:-1]), row[-1]) for row in rows]
    return Sheet(("NAMESPACE",) * namespaces + JOB_HEADER, rows)


JOB_HEADER = ("NAME", "PHASE", "PROGRESS", "LOSS", "READY", "RESTARTS", "CHECKPOINT", "COMM", "AGE", "MESSAGE")


def job_row(job: TrainingJob, now: datetime) -> tuple[str, ...]:
    status = job.status
    return (
        job.name,
        status.phase.value,
        status.progress,
        _loss(status),
        f"{status.ready}/{status.replicas}",
        str(status.restarts),
        str(status.last_checkpoint.round) if status.last_checkpoint else "",
        status.communication.share if status.communication else "",
        age(job.created or status.start_time, now),
        status.message,
    )


def job(found: TrainingJob, now: datetime) -> list[str | Sheet]:
    """All that is known of one job: blocks to print one below the other."""
    status = found.status
    facts = pairs(
        {
            "job": f"{found.namespace}/{found.name}",
            "phase": f"{status.phase.value}: {status.message}" if status.message else status.phase.value,
            "round": _round(status),
            "loss": _loss(status),
            "replicas": "" if found.is_over else f"{status.ready} of {status.replicas} ready",
            "generation": status.generation,
            "communication": _communication(status),
            "checkpoint": _checkpoint(status, now),
            "restarts": f"{status.restarts}, counted against the budget: {status.counted_restarts}",
            "inherited": status.inherited,
            "started": _time(status.start_time),
            "ended": _time(status.completion_time),
        }
    )
    blocks: list[str | Sheet] = [facts]
    if status.failures:
        blocks += ["", failures(status)]
    if status.warnings:
        rows = [(_time(warning.time), warning.reason, warning.message) for warning in status.warnings]
        blocks += ["", Sheet(("WARNING", "REASON", "MESSAGE"), rows)]
    return blocks


def failures(status: TrainingJobStatus) -> Sheet:
    rows = [
        (
            _time(failure.time),
            failure.pod,
            "" if failure.rank is None else str(failure.rank),
            failure.reason,
            "" if failure.exit_code is None else str(failure.exit_code),
            ("in its pod" if failure.in_place else "pod replaced") + ("" if failure.counted else ", not counted"),
            failure.message,
        )
        for failure in status.failures
    ]
    return Sheet(("FAILURE", "POD", "RANK", "REASON", "CODE", "RESTART", "MESSAGE"), rows)


def ranks(pods: Sequence[Pod], agents: Mapping[str, AgentStatus]) -> Sheet:
    """A row a rank; a pod whose agent gives no answer has one row, which says what the pod does."""
    header = ("RANK", "POD", "NODE", "STATE", "ROUND", "LOSS", "TOKENS/S", "COMM", "BEAT", "RESTARTS")
    rows: list[tuple[str, ...]] = []
    for pod in pods:
        agent = agents.get(pod.name)
        if agent is None or not agent.ranks:
            rows.append(("", pod.name, pod.node or "", pod_state(pod, answers=agent is not None), *[""] * 6))
            continue
        rows += [_rank(rank, pod, agent) for rank in agent.ranks]
    return Sheet(header, rows)


def pod_state(pod: Pod, *, answers: bool) -> str:
    """In a few words, with what it waits for."""
    if pod.exit_code is not None:
        return f"ended: {pod.reason or pod.exit_code}" if pod.exit_code else "done"
    if pod.deleting:
        return "stopping"
    if pod.phase is PodPhase.RUNNING:
        return "starting" if answers else "running, its agent gives no answer"
    waiting = ": ".join(filter(None, (pod.waiting_reason, pod.waiting_message)))
    return f"{pod.phase.value.lower()}: {waiting}" if waiting else pod.phase.value.lower()


def _rank(rank: RankStatus, pod: Pod, agent: AgentStatus) -> tuple[str, ...]:
    progress = rank.progress
    state = rank.phase.value if agent.live else f"{rank.phase.value}, not live: {agent.reason}"
    shown = (
        ("", "", "", "")
        if progress is None
        else (
            f"{progress.round}/{progress.total_rounds}",
            "" if progress.loss is None else f"{progress.loss:.{_LOSS_DIGITS}f}",
            "" if progress.tokens_per_second is None else thousands(progress.tokens_per_second),
            "" if progress.communication_share is None else f"{progress.communication_share:.1%}",
        )
    )
    return (str(rank.rank), pod.name, pod.node or "", state, *shown, f"{rank.beat_age:.0f}s", str(rank.restarts))


def events(found: Iterable[JobEvent], now: datetime) -> Sheet:
    rows = [
        (
            age(event.time, now),
            event.type,
            event.reason,
            event.object,
            event.message if event.count == 1 else f"{event.message} (x{event.count})",
        )
        for event in found
    ]
    return Sheet(("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows)


def _round(status: TrainingJobStatus) -> str:
    if not status.total_rounds:
        return ""
    return f"{status.round} of {status.total_rounds} ({status.round / status.total_rounds:.0%})"


def _loss(status: TrainingJobStatus) -> str:
    return f"{float(status.loss):.{_LOSS_DIGITS}f}" if status.loss else ""


def _communication(status: TrainingJobStatus) -> str:
    if status.communication is None:
        return ""
    ratio = f", {status.communication.ratio} times fewer bytes" if status.communication.ratio else ""
    return f"{status.communication.share} of a round waited for it, codec {status.communication.codec}{ratio}"


def _checkpoint(status: TrainingJobStatus, now: datetime) -> str:
    record = status.last_checkpoint
    return f"round {record.round}, {age(record.time, now)} ago" if record else ""


def _time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
