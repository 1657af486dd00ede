import pytest

from ringtrain_operator.cluster.rate import Rate


def test_a_burst_is_free_and_then_each_request_waits_its_turn() -> None:
    rate = Rate(10, 5)
    assert [rate.take(100) for _ in range(8)] == pytest.approx([0, 0, 0, 0, 0, 0.1, 0.2, 0.3])


def test_what_was_not_used_is_saved_up_to_the_burst() -> None:
    rate = Rate(10, 2)
    for _ in range(4):
        rate.take(0)
    assert rate.take(0.3) == pytest.approx(0)
    assert [rate.take(1000) for _ in range(3)] == pytest.approx([0, 0, 0.1])
