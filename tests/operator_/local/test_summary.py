from datetime import UTC, datetime
from pathlib import Path

from ringtrain.contract.report import Progress
from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.local.snapshot import History
from ringtrain_operator.local.summary import final_digest, summary, tail

LAST = Progress(round=15, total_rounds=15, loss=2.5)


def status(phase: JobPhase = JobPhase.SUCCEEDED) -> TrainingJobStatus:
    time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    failures = (
        Failure(time=time, replica=1, rank=1, pod="small-1-0", reason="Signal9", exit_code=137, message="killed"),
        Failure(time=time, replica=2, pod="small-2-1", reason="PodDeleted"),
    )
    return TrainingJobStatus(
        phase=phase,
        message="all 15 rounds",
        round=15,
        total_rounds=15,
        restarts=2,
        counted_restarts=1,
        failures=failures,
    )


def test_outcome_rounds_loss_restarts_failures_and_checkpoints() -> None:
    history = History(Progress(round=1, total_rounds=15, loss=5.5), LAST)
    assert summary(status(), history, Path("/runs/small/checkpoints"), "abc123") == [
        "Succeeded: all 15 rounds",
        "rounds      15 of 15",
        "loss        5.5000 (round 1) -> 2.5000 (round 15)",
        "restarts    2, counted against the budget: 1",
        "failure     03:04:05 rank 1 small-1-0 Signal9 (exit code 137): killed",
        "failure     03:04:05 replica 2 small-2-1 PodDeleted",
        "checkpoints /runs/small/checkpoints",
        "digest      abc123",
    ]


def test_a_job_that_was_seen_once_has_one_loss() -> None:
    assert "loss        2.5000 (round 15)" in summary(status(), History(LAST, LAST), None, None)


def test_a_job_that_is_not_over_was_interrupted() -> None:
    assert summary(status(JobPhase.RUNNING), History(), None, None)[0] == "Interrupted: run it again to go on"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100)) + b"\xff torn")
    assert tail(log)[0] == "line 86"
    assert tail(log)[-1] == "\ufffd torn"
    assert tail(tmp_path / "absent") == []


def test_the_last_digest_of_a_log_is_the_final_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("round 1/2\nfinal digest aa\nround 2/2\nfinal digest bb\n")
    assert final_digest(log) == "bb"
    assert final_digest(tmp_path / "absent") is None
