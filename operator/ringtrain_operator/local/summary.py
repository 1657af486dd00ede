"""What is said when a run has ended."""

from pathlib import Path

from ringtrain_operator.api.status import TERMINAL, TrainingJobStatus
from ringtrain_operator.local.snapshot import History
from ringtrain_operator.plan.failures import who_failed

_TAIL_LINES = 15
_DIGEST = "final digest "


def summary(status: TrainingJobStatus, history: History, checkpoints: Path | None, digest: str | None) -> list[str]:
    """Lines for people: outcome, rounds, loss, restarts, each failure, where the checkpoints are, the digest."""
    lines = [
        f"{status.phase.value}: {status.message}" if status.phase in TERMINAL else "Interrupted: run it again to go on"
    ]
    if status.total_rounds:
        lines.append(f"rounds      {status.round} of {status.total_rounds}")
    if history.first is not None and history.last is not None:
        seen = [history.last] if history.first.round == history.last.round else [history.first, history.last]
        lines.append("loss        " + " -> ".join(f"{progress.loss:.4f} (round {progress.round})" for progress in seen))
    lines.append(f"restarts    {status.restarts}, counted against the budget: {status.counted_restarts}")
    lines.extend(_failures(status))
    if checkpoints is not None:
        lines.append(f"checkpoints {checkpoints}")
    if digest is not None:
        lines.append(f"digest      {digest}")
    return lines


def _failures(status: TrainingJobStatus) -> list[str]:
    rows = []
    for failure in status.failures:
        code = "" if failure.exit_code is None else f" (exit code {failure.exit_code})"
        said = f": {failure.message}" if failure.message else ""
        rows.append(
            f"failure     {failure.time:%H:%M:%S} {who_failed(failure)} {failure.pod} {failure.reason}{code}{said}"
        )
    return rows


def final_digest(log: Path) -> str | None:
    """The digest of the trained parameters, as the built-in trainer's rank 0 prints it at its end."""
    found = [line for line in _lines(log) if line.startswith(_DIGEST)]
    return found[-1].removeprefix(_DIGEST).strip() if found else None


def tail(log: Path) -> list[str]:
    """The last lines of a pod's log; none when it cannot be read."""
    return _lines(log)[-_TAIL_LINES:]


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
