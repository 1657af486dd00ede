from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.agent import termination
from ringtrain.agent.liveness import verdict
from ringtrain.agent.record import RankRecord
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.messages import Failing
from ringtrain.contract.phases import Phase, PhaseTimeouts
from ringtrain.contract.report import CheckpointRecord, JobReport, Progress, TerminationMessage

RANK = RankRecord(rank=1, judged=True, beat_at=0, phase=Phase.TRAINING, progress=Progress(round=7, total_rounds=9))


def failing(message: str, code: int = 70) -> Failing:
    return Failing(rank=1, exit_code=code, message=message)


def test_last_words_of_a_rank_are_the_message() -> None:
    record = RANK.sent(failing("ValueError: x (train.py:7)"), 1).ended(70)
    assert termination.of_rank(record, out_of_memory=False) == TerminationMessage(
        exit_code=70, reason="UserError", message="rank 1: ValueError: x (train.py:7)", rank=1, round=7
    )


@pytest.mark.parametrize(
    ("code", "out_of_memory", "expected", "reason", "said"),
    [
        (137, False, 137, "Signal9", "rank 1 was killed by SIGKILL"),
        (137, True, 83, "OutOfMemory", "memory limit is too low"),
        (139, True, 139, "Signal11", "rank 1 was killed by SIGSEGV"),
        (3, False, 3, "Crashed", "rank 1 exited with code 3"),
        (0, False, 70, "UserError", "before the job was done"),
        (200, False, 200, "Crashed", "signal 72"),
    ],
)
def test_ends_without_last_words(code: int, out_of_memory: bool, expected: int, reason: str, said: str) -> None:
    message = termination.of_rank(RANK.ended(code), out_of_memory)
    assert (message.exit_code, message.reason) == (expected, reason)
    assert said in message.message


def test_a_hang_names_rank_phase_and_round() -> None:
    message = termination.of_hang(verdict([RANK], PhaseTimeouts(training=5), 10))
    assert (message.exit_code, message.reason, message.rank, message.round) == (ExitCode.HANG, "Hang", 1, 7)
    assert "rank 1" in message.message
    assert "training" in message.message


def test_who_hangs_in_the_check_is_unfit() -> None:
    checking = replace(RANK, phase=Phase.CHECKING)
    message = termination.of_rank(replace(checking, hang="has not run for 2 s").ended(137), out_of_memory=False)
    assert (message.exit_code, message.reason) == (ExitCode.UNFIT, "Unfit")
    assert termination.of_hang(verdict([checking], PhaseTimeouts(checking=5), 10)).exit_code == ExitCode.UNFIT


def test_the_end_of_the_job_tells_the_last_round() -> None:
    silent = RankRecord(rank=2, judged=True, beat_at=0)
    checkpoint = CheckpointRecord(round=5, time=datetime(2026, 1, 1, tzinfo=UTC))
    report = JobReport(progress=Progress(round=6, total_rounds=9), last_checkpoint=checkpoint)
    told = termination.of_done([RANK, silent], report)
    assert (told.exit_code, told.round, told.progress, told.last_checkpoint) == (0, 7, RANK.progress, checkpoint)
    assert termination.of_done([silent], report).progress == report.progress
    assert termination.of_done([], None).round is None
    # So does that of a replica that was asked to end, for it may be the last one.
    stopped = termination.of_stop([RANK, silent], report)
    assert (stopped.exit_code, stopped.progress, stopped.last_checkpoint) == (80, RANK.progress, checkpoint)


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=9000), st.sampled_from(["a", '"', "\n", "é", "😀"]))
def test_any_message_fits_and_keeps_its_beginning(text: str, repeated: str) -> None:
    for message in (text, text + 5000 * repeated):
        fitted = termination.fit(TerminationMessage(exit_code=70, reason="UserError", message=message))
        assert len(fitted) <= termination.MAXIMUM_BYTES
        told = TerminationMessage.model_validate_json(fitted).message
        assert message.startswith(told.removesuffix(" [...]"))
        assert told == message or len(fitted) > termination.MAXIMUM_BYTES - 1000


def test_it_is_written_to_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    termination.write(str(path), termination.of_code(ExitCode.STALE, "a newer pod is known"))
    assert TerminationMessage.model_validate_json(path.read_text()) == TerminationMessage(
        exit_code=84, reason="Stale", message="a newer pod is known"
    )


def test_a_log_that_cannot_be_written_hurts_nobody(tmp_path: Path) -> None:
    termination.write(str(tmp_path / "no" / "such" / "folder"), termination.of_code(0, "done"))
