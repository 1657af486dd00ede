from dataclasses import replace
from datetime import timedelta

import pytest

from operator_.plan.builders import NOW, job, status
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.result import Create, DeletePod, Event, Plan
from ringtrain_operator.plan.writing import BUSY, CALM, is_due

STORED = status(0, 0)


def due(after: TrainingJobStatus, age: timedelta | None, **fields: object) -> bool:
    """Whether `after` is written, `age` after the last write."""
    written = NOW - age if age is not None else None
    return is_due(replace(job(status=STORED), written=written), replace(Plan(status=after), **fields), NOW)  # type: ignore[arg-type]


def test_what_did_not_change_is_never_written() -> None:
    assert not due(STORED, None, events=(Event("Normal", "Told", "again"),))


@pytest.mark.parametrize(
    "progress", [{"round": 5, "progress": "5/9", "loss": "1.0"}, {"ready": 1}, {"message": "in other words"}]
)
def test_progress_waits_for_its_turn(progress: dict[str, object]) -> None:
    after = STORED.model_copy(update=progress)
    assert not due(after, CALM - timedelta(seconds=1))
    assert due(after, CALM)
    assert due(after, None)


def test_it_waits_less_while_people_watch_pods_come_up() -> None:
    after = STORED.model_copy(update={"ready": 1, "phase": JobPhase.STARTING})
    before = replace(job(status=STORED.model_copy(update={"phase": JobPhase.STARTING})), written=NOW - BUSY)
    assert is_due(before, Plan(status=after), NOW)
    assert not is_due(replace(before, written=NOW - BUSY / 2), Plan(status=after), NOW)


@pytest.mark.parametrize(
    "fields", [{"epoch": 1}, {"restarts": 1}, {"phase": JobPhase.RESTARTING}, {"generation": "0.1"}]
)
def test_what_a_decision_rests_on_is_written_at_once(fields: dict[str, object]) -> None:
    assert due(STORED.model_copy(update=fields), timedelta(0))


@pytest.mark.parametrize(
    "acts",
    [
        {"creates": (Create({"kind": "Pod"}),)},
        {"deletes": (DeletePod("gpt-0-0", "uid"),)},
        {"events": (Event("Normal", "Training", "it does"),)},
    ],
)
def test_nothing_is_done_that_the_stored_status_does_not_know_of(acts: dict[str, object]) -> None:
    assert due(STORED.model_copy(update={"ready": 1}), timedelta(0), **acts)


def test_what_is_left_of_a_job_that_has_ended_is_written_at_once() -> None:
    ended = STORED.model_copy(update={"phase": JobPhase.SUCCEEDED, "ready": 1})
    last = replace(job(status=ended), written=NOW)
    assert is_due(last, Plan(status=ended.model_copy(update={"ready": 0})), NOW)
    assert not is_due(last, Plan(status=ended), NOW)
