from datetime import timedelta
from typing import Any

from operator_.plan.builders import NOW, spec_with, status
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.deadlines import exceeded, seconds_left, started, suspended, waits


def spec(**fields: Any) -> TrainingJobSpec:
    return parse("gpt", spec_with(**fields))


def later(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


HOUR = spec(activeDeadlineSeconds=3600)
MINUTE_TO_BEGIN = spec(pendingDeadlineSeconds=60)


def test_without_deadlines_time_does_not_matter() -> None:
    begun = waits(started(status(0), NOW), True, NOW)
    assert exceeded(spec(), begun, later(10**9)) is None
    assert seconds_left(spec(), begun, NOW) is None


def test_a_job_may_be_active_for_so_long() -> None:
    begun = started(TrainingJobStatus(), NOW)
    assert begun.start_time == NOW
    assert seconds_left(HOUR, begun, later(600)) == 3000
    assert exceeded(HOUR, begun, later(3599)) is None
    given_up = exceeded(HOUR, begun, later(3600))
    assert given_up is not None
    assert (given_up.reason, "3600 s (activeDeadlineSeconds)" in given_up.message) == ("DeadlineExceeded", True)


def test_time_suspended_is_not_counted() -> None:
    resting = suspended(started(TrainingJobStatus(), NOW), later(600))
    assert (seconds_left(HOUR, resting, later(10**6)), exceeded(HOUR, resting, later(10**6))) == (None, None)
    again = started(resting, later(10**6))
    assert again.start_time == NOW
    assert seconds_left(HOUR, again, later(10**6)) == 3000
    assert exceeded(HOUR, suspended(again, later(10**6 + 3000)), later(10**6 + 3000)) is not None


def test_a_new_start_of_all_pods_goes_on_counting() -> None:
    assert started(started(TrainingJobStatus(), NOW), later(5)).active_since == NOW


def test_a_job_may_wait_for_so_long() -> None:
    waiting = waits(status(0, message="replica 0: no GPU"), True, NOW)
    assert waits(waiting, True, later(9)).pending_since == NOW
    assert seconds_left(MINUTE_TO_BEGIN, waiting, later(50)) == 10
    assert exceeded(MINUTE_TO_BEGIN, waiting, later(59)) is None
    given_up = exceeded(MINUTE_TO_BEGIN, waiting, later(60))
    assert given_up is not None
    assert given_up.reason == "PendingDeadlineExceeded"
    assert "within 60 s (pendingDeadlineSeconds): replica 0: no GPU" in given_up.message


def test_waiting_ends_when_all_pods_run_or_none_is_wanted() -> None:
    waiting = waits(status(0), True, NOW)
    for calm in (waits(waiting, False, later(1)), suspended(waiting, later(1))):
        assert exceeded(MINUTE_TO_BEGIN, calm, later(100)) is None
    assert waits(waits(waiting, False, later(1)), True, later(90)).pending_since == later(90)
