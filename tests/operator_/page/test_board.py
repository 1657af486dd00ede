import json
from datetime import UTC, datetime

from ringtrain_operator.api.status import Member, TrainingJobStatus
from ringtrain_operator.page.board import Board
from ringtrain_operator.plan.observed import JobKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = JobKey("team", "a"), JobKey("team", "b")


def board(notice: str = "") -> Board:
    return Board("cluster", lambda: NOW, lambda: notice)


def names(found: Board) -> list[str]:
    return [job["name"] for job in found.document()["jobs"]]


def test_jobs_come_and_go() -> None:
    found = board()
    found.seen(B, TrainingJobStatus(), NOW)
    found.seen(A, TrainingJobStatus(), NOW)
    assert names(found) == ["a", "b"]
    found.seen(A, None, NOW)
    assert names(found) == ["b"]
    found.keep({A})
    assert names(found) == []


def test_a_job_that_was_made_anew_begins_anew() -> None:
    found = board()
    found.seen(A, TrainingJobStatus(round=7), NOW)
    found.seen(A, None, NOW)
    found.seen(A, TrainingJobStatus(round=1), NOW)
    (job,) = found.document()["jobs"]
    assert [point[1] for point in job["curve"]] == [1]


def test_the_document() -> None:
    found = board("stands by")
    found.seen(A, TrainingJobStatus(round=7, loss="nan", started_with="{}", members=(Member(index=0, epoch=0),)), NOW)
    document = found.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    (job,) = document["jobs"]
    assert job["curve"] == [[NOW.timestamp(), 7, None, None]]
    assert (job["status"]["round"], job["status"]["totalRounds"]) == (7, 0)
    assert not {"members", "startedWith", "noticeCursor"} & set(job["status"])
    assert (document["place"], document["notice"], document["now"]) == ("cluster", "stands by", NOW.timestamp())
