from datetime import timedelta
from typing import Any

import pytest

from operator_.plan.builders import NOW, status
from ringtrain.contract.report import (
    CheckpointRecord,
    CommunicationTotals,
    JobReport,
    LinkTotals,
    Notice,
    Progress,
    TerminationMessage,
)
from ringtrain_operator.api.status import WARNINGS_KEPT, CommunicationStatus
from ringtrain_operator.plan.progress import follow, is_outdated, with_last_words, with_progress_text
from ringtrain_operator.plan.result import Event


def report(*sequences: int, coordinator: str = "one", warning: bool = True, **fields: Any) -> JobReport:
    notices = tuple(
        Notice(
            sequence=sequence,
            time=NOW + timedelta(seconds=sequence, microseconds=5),
            reason="CheckpointDamaged",
            message=f"{coordinator} {sequence}",
            warning=warning,
        )
        for sequence in sequences
    )
    return JobReport(coordinator_id=coordinator, notices=notices, **fields)


def test_progress_is_taken_over() -> None:
    record = CheckpointRecord(round=10, time=NOW.replace(microsecond=9))
    progress = Progress(round=12, total_rounds=60, loss=3.14159)
    after, events = follow(status(0), report(generation="0.1", progress=progress, last_checkpoint=record))
    assert (after.round, after.total_rounds, after.progress, after.loss) == (12, 60, "12/60", "3.1416")
    assert after.generation == "0.1"
    assert after.last_checkpoint == CheckpointRecord(round=10, time=NOW)
    assert events == ()


def said(round: int, age: float) -> TerminationMessage:
    record = CheckpointRecord(round=round, time=NOW - timedelta(seconds=age) + timedelta(microseconds=7))
    progress = Progress(round=round, total_rounds=60)
    return TerminationMessage(exit_code=80, reason="Preempted", message="", progress=progress, last_checkpoint=record)


def test_the_last_words_of_pods_tell_of_what_they_saved_last() -> None:
    silent = TerminationMessage(exit_code=80, reason="Preempted", message="")
    after = with_last_words(status(0), [said(20, age=5), silent, said(23, age=1), said(22, age=3)])
    assert (after.last_checkpoint, after.progress) == (
        CheckpointRecord(round=23, time=NOW - timedelta(seconds=1)),
        "23/60",
    )
    # Of what is known already, and of what pods before these said, nothing is taken.
    further = after.model_copy(update={"round": 25})
    assert with_last_words(further, [said(23, age=1), said(20, age=5), silent]) == further


def test_what_communication_costs() -> None:
    inter = LinkTotals(raw_bytes=4000, sent_bytes=1000)
    totals = CommunicationTotals(
        codec="zfp-4", rounds=10, round_seconds=50, communication_seconds=30, exposed_seconds=4,
        intra=LinkTotals(), inter=inter,
    )  # fmt: skip
    progress = Progress(round=12, total_rounds=60, communication=totals)
    after, _ = follow(status(0), report(progress=progress))
    assert after.communication == CommunicationStatus(codec="zfp-4", share="8.0%", ratio="4.00", bytes_per_round=100)
    alone = totals.model_copy(update={"inter": LinkTotals()})
    after, _ = follow(status(0), report(progress=progress.model_copy(update={"communication": alone})))
    assert after.communication == CommunicationStatus(codec="zfp-4", share="8.0%")


def test_what_a_report_leaves_out_is_kept() -> None:
    before = with_progress_text(status(0, round=12, total_rounds=60, loss="3.1416"))
    after, _ = follow(before, report())
    assert after == before


def test_rounds_without_a_known_end_are_counted() -> None:
    assert with_progress_text(status(0, round=7)).progress == "7"
    assert with_progress_text(status(0)).progress == ""
    assert with_progress_text(status(0, total_rounds=60)).progress == "0/60"


def test_each_notice_becomes_one_event() -> None:
    after, events = follow(status(0), report(1, 2))
    assert events == (Event("Warning", "CheckpointDamaged", "one 1"), Event("Warning", "CheckpointDamaged", "one 2"))
    assert after.notice_cursor == "one/2"
    again, events = follow(after, report(1, 2))
    assert (again, events) == (after, ())
    _, events = follow(after, report(1, 2, 3))
    assert [event.message for event in events] == ["one 3"]


def test_a_new_coordinator_counts_anew() -> None:
    after, _ = follow(status(0), report(1, 2))
    after, events = follow(after, report(1, coordinator="two"))
    assert [event.message for event in events] == ["two 1"]
    assert after.notice_cursor == "two/1"


def test_an_agent_that_still_tells_of_the_old_coordinator_repeats_no_warning() -> None:
    after, _ = follow(status(0), report(1, 2))
    after, _ = follow(after, report(1, coordinator="two"))
    _, events = follow(after, report(1, 2))
    assert events == ()


def test_warnings_are_kept_in_status_and_others_are_not() -> None:
    after, _ = follow(status(0), report(*range(1, 10)))
    assert [warning.message for warning in after.warnings] == [f"one {n}" for n in range(10 - WARNINGS_KEPT, 10)]
    after, events = follow(status(0), report(1, warning=False))
    assert after.warnings == ()
    assert [event.type for event in events] == ["Normal"]


@pytest.mark.parametrize(
    ("seen", "said", "outdated"),
    [
        ("1.2", "1.1", True),
        ("1.2", "0.9", True),
        ("1.2", "1.2", False),
        ("1.2", "2.0", False),
        ("", "0.0", False),
        ("1.2", None, False),
        ("", "nonsense", True),
    ],
)
def test_reports_of_earlier_generations_are_outdated(seen: str, said: str | None, outdated: bool) -> None:
    assert is_outdated(status(0, generation=seen), report(generation=said)) is outdated
