"""Why the replica ends: its exit code, and the termination message in words a user can act on."""

import logging
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from ringtrain.agent.liveness import Verdict
from ringtrain.agent.record import RankRecord
from ringtrain.contract.exit_codes import ExitCode, reason
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, RankFailure, TerminationMessage

MAXIMUM_BYTES = 4096
"""Kubernetes reads no more of a termination log."""
_FAILURES_TOLD = 5
_FEW_WORDS = 160
_ELLIPSIS = " [...]"
_logger = logging.getLogger(__name__)


def of_code(code: int, message: str, record: RankRecord | None = None) -> TerminationMessage:
    """`record` is the rank that the end is about, if it is about one."""
    round = record.progress.round if record and record.progress else None
    return TerminationMessage(
        exit_code=code, reason=reason(code), message=message, rank=record.rank if record else None, round=round
    )


def of_rank(record: RankRecord, out_of_memory: bool) -> TerminationMessage:
    """For a rank that ended before the job; `out_of_memory`: the kernel killed for memory in this container."""
    code = record.exit_code or 0
    name = f"rank {record.rank}"
    if record.hang:
        return of_code(_of_silence(record), f"{name} {record.hang}", record)
    if code == 128 + signal.SIGKILL and out_of_memory:
        return of_code(
            ExitCode.OUT_OF_MEMORY, f"{name} was killed by the kernel: the container's memory limit is too low", record
        )
    if record.failing is not None:
        return of_code(code or record.failing.exit_code, f"{name}: {record.failing.message}", record)
    if code == 0:
        return of_code(
            ExitCode.USER_ERROR, f"{name} exited with code 0 before the job was done: let ringtrain.run return", record
        )
    if code > 128:
        return of_code(code, f"{name} was killed by {_signal_name(code - 128)}", record)
    return of_code(code, f"{name} exited with code {code}: see its log", record)


def of_done(records: Iterable[RankRecord], report: JobReport | None) -> TerminationMessage:
    """For the end of the whole job; `report` is the coordinator's last."""
    return _of_all(ExitCode.DONE, "all rounds of the job are trained", records, report)


def of_stop(records: Iterable[RankRecord], report: JobReport | None) -> TerminationMessage:
    """For a replica that was asked to end, and whose ranks have saved and ended."""
    return _of_all(ExitCode.PREEMPTED, "the replica was asked to stop", records, report)


def _of_all(
    code: ExitCode, message: str, records: Iterable[RankRecord], report: JobReport | None
) -> TerminationMessage:
    """With what may be the last word on the job: all its pods may have ended."""
    known = [*(record.progress for record in records), report.progress if report else None]
    progress = max(filter(None, known), key=lambda one: one.round, default=None)
    return TerminationMessage(
        exit_code=code,
        reason=reason(code),
        message=message,
        round=progress.round if progress else None,
        progress=progress,
        last_checkpoint=report.last_checkpoint if report else None,
        rank_failures=_in_few_words(report.rank_failures) if report else (),
    )


def _in_few_words(failures: Sequence[RankFailure]) -> tuple[RankFailure, ...]:
    return tuple(
        failure.model_copy(update={"message": failure.message[:_FEW_WORDS]}) for failure in failures[-_FAILURES_TOLD:]
    )


def of_hang(verdict: Verdict) -> TerminationMessage:
    code = _of_silence(verdict.hung) if verdict.hung is not None else ExitCode.HANG
    return of_code(code, f"stopped by the liveness probe: {verdict.reason}", verdict.hung)


def _of_silence(record: RankRecord) -> ExitCode:
    """A machine on which the pre-flight check hangs has failed it."""
    return ExitCode.UNFIT if record.phase is Phase.CHECKING else ExitCode.HANG


def fit(message: TerminationMessage) -> bytes:
    """As JSON in at most `MAXIMUM_BYTES`; too long a text loses its end."""
    text = message.message
    while len(encoded := message.to_json().encode()) > MAXIMUM_BYTES:
        # JSON may write one character in several bytes: shorten by what is too much, and look again.
        text = text[: max(0, len(text) - max(1, (len(encoded) - MAXIMUM_BYTES) // 6))]
        message = message.model_copy(update={"message": text + _ELLIPSIS})
    return encoded


def write(path: str, message: TerminationMessage) -> None:
    """To the container's termination log; a failure is only logged."""
    try:
        Path(path).write_bytes(fit(message))
    except OSError as error:
        _logger.warning("no termination message could be written to %s: %s", path, error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
