from datetime import UTC, datetime, timedelta

import pytest

from ringtrain_operator.api.status import CommunicationStatus, TrainingJobStatus
from ringtrain_operator.page.curve import MOST_POINTS, Curve, Point, extended

START = datetime(2026, 1, 1, tzinfo=UTC)


def status(round: int, loss: str = "2.5", share: str | None = "12.5%") -> TrainingJobStatus:
    communication = CommunicationStatus(codec="zfp-4", share=share) if share else None
    return TrainingJobStatus(round=round, loss=loss, communication=communication)


def drawn(rounds: list[int]) -> Curve:
    curve: Curve = ()
    for second, round in enumerate(rounds):
        curve = extended(curve, status(round), START + timedelta(seconds=second))
    return curve


def test_a_point_a_round() -> None:
    assert drawn([0, 1, 1, 2]) == (
        Point(START.timestamp() + 1, 1, 2.5, 0.125),
        Point(START.timestamp() + 3, 2, 2.5, 0.125),
    )


@pytest.mark.parametrize("loss", ["", "nan", "inf"])
def test_what_is_not_known_or_no_number(loss: str) -> None:
    assert extended((), status(1, loss, None), START) == (Point(START.timestamp(), 1, None, None),)


def test_a_job_that_goes_back() -> None:
    assert [point.round for point in drawn([5, 6, 4, 5])] == [5, 6, 4, 5]


def test_a_long_job_keeps_its_beginning_and_its_end() -> None:
    rounds = list(range(1, 20 * MOST_POINTS))
    curve = drawn(rounds)
    assert len(curve) <= MOST_POINTS
    assert (curve[0].round, curve[-1].round) == (1, rounds[-1])
    assert [point.round for point in curve] == sorted({point.round for point in curve})
