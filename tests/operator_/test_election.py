from datetime import UTC, datetime, timedelta
from typing import Any

from ringtrain_operator.election import claimed, is_free, released, see

TIME = datetime(2030, 1, 1, 12, tzinfo=UTC)


def lease(spec: dict[str, Any] | None) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "1"}, "spec": spec}


def held(renewed: int = 0) -> dict[str, Any]:
    """By `other`, for 15 s."""
    return lease(claimed(None, "other", 15, TIME + timedelta(seconds=renewed)))


def test_a_lease_is_waited_for_until_nothing_of_it_changed_for_its_time() -> None:
    seen = see(held(), None, 100)
    assert not is_free(seen, "me", 114.9)
    assert is_free(seen, "me", 115)


def test_every_renewal_begins_the_wait_anew() -> None:
    seen = see(held(), None, 100)
    assert see(held(), seen, 110) == seen
    renewed = see(held(renewed=2), seen, 110)
    assert not is_free(renewed, "me", 124.9)
    assert is_free(renewed, "me", 125)


def test_the_clock_of_the_holder_does_not_matter() -> None:
    assert not is_free(see(held(renewed=-100000), None, 100), "me", 101)


def test_ones_own_lease_and_one_that_was_given_back_are_free() -> None:
    assert is_free(see(held(), None, 100), "other", 100)
    assert is_free(see(lease(released(held())), None, 100), "me", 100)
    assert is_free(see(lease(None), None, 100), "me", 100)


def test_transitions_count_holders_and_renewals_keep_the_time_of_taking() -> None:
    first = claimed(None, "a", 15, TIME)
    assert first["leaseTransitions"] == 0
    again = claimed(lease(first), "a", 15, TIME + timedelta(seconds=2))
    assert (again["leaseTransitions"], again["acquireTime"]) == (0, first["acquireTime"])
    assert again["renewTime"] == "2030-01-01T12:00:02.000000Z"
    other = claimed(lease(again), "b", 15, TIME + timedelta(seconds=9))
    assert (other["holderIdentity"], other["leaseTransitions"]) == ("b", 1)
    assert other["acquireTime"] == other["renewTime"]
