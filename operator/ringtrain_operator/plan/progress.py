"""From the trainer's report to the job's status: round, loss, checkpoint, and each notice once."""

from collections.abc import Iterable, Sequence
from typing import Any

from ringtrain.contract.generation import Generation
from ringtrain.contract.report import CommunicationTotals, JobReport, Notice, TerminationMessage
from ringtrain_operator.api.status import WARNINGS_KEPT, CommunicationStatus, JobWarning, TrainingJobStatus
from ringtrain_operator.plan.result import Event


def follow(status: TrainingJobStatus, report: JobReport) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status` with what `report` says, and an event for each notice that is new."""
    news: dict[str, Any] = {}
    if report.generation is not None:
        news["generation"] = report.generation
    if report.progress is not None:
        news["round"] = report.progress.round
        news["total_rounds"] = report.progress.total_rounds
        if report.progress.loss is not None:
            news["loss"] = f"{report.progress.loss:.4f}"
        if report.progress.communication is not None:
            news["communication"] = _communication(report.progress.communication)
    if report.last_checkpoint is not None:
        time = report.last_checkpoint.time.replace(microsecond=0)
        news["last_checkpoint"] = report.last_checkpoint.model_copy(update={"time": time})
    notices = _new_notices(status, report)
    if notices:
        news["notice_cursor"] = f"{report.coordinator_id}/{notices[-1].sequence}"
    warnings = [warning for notice in notices if (warning := _warning(notice))]
    news["warnings"] = (*status.warnings, *warnings)[-WARNINGS_KEPT:]
    events = tuple(Event("Warning" if n.warning else "Normal", n.reason, n.message) for n in notices)
    return with_progress_text(status.model_copy(update=news)), events


def with_last_words(status: TrainingJobStatus, words: Iterable[TerminationMessage]) -> TrainingJobStatus:
    """`status` with the newest checkpoint, and the progress until then, of which pods told when they ended: nobody else
    may have been told of what they saved last."""
    for said in words:
        saved, known = said.last_checkpoint, status.last_checkpoint
        if saved is not None and (known is None or saved.time.replace(microsecond=0) > known.time):
            status, _ = follow(status, JobReport(progress=said.progress, last_checkpoint=saved))
    return status


def is_outdated(status: TrainingJobStatus, report: JobReport) -> bool:
    """The report is of an earlier generation than one that was seen, or of none that can be read."""
    if report.generation is None:
        return False
    try:
        generation = Generation.parse(report.generation)
    except ValueError:
        return True
    return bool(status.generation) and generation < Generation.parse(status.generation)


def with_progress_text(status: TrainingJobStatus) -> TrainingJobStatus:
    """`status` with its `progress` made of round and total_rounds."""
    text = f"{status.round}/{status.total_rounds}" if status.total_rounds else str(status.round or "")
    return status.model_copy(update={"progress": text})


def _communication(totals: CommunicationTotals) -> CommunicationStatus:
    return CommunicationStatus(
        codec=totals.codec,
        share=f"{100 * totals.share:.1f}%",
        ratio=f"{totals.ratio:.2f}" if totals.ratio is not None else "",
        bytes_per_round=totals.inter.sent_bytes // max(totals.rounds, 1),
    )


def _new_notices(status: TrainingJobStatus, report: JobReport) -> Sequence[Notice]:
    coordinator, _, sequence = status.notice_cursor.rpartition("/")
    last = int(sequence) if coordinator == report.coordinator_id and sequence else -1
    known = set(status.warnings)
    # An agent that has not met the newest coordinator yet may repeat what its predecessor said.
    return sorted(
        (n for n in report.notices if n.sequence > last and _warning(n) not in known), key=lambda n: n.sequence
    )


def _warning(notice: Notice) -> JobWarning | None:
    if not notice.warning:
        return None
    return JobWarning(time=notice.time.replace(microsecond=0), reason=notice.reason, message=notice.message)
