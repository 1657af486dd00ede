from datetime import timedelta

from operator_.plan.builders import NOW, status
from ringtrain_operator.plan.conditions import ACCEPTED, FAILED, RUNNING, find, with_condition

LATER = NOW + timedelta(minutes=1)


def test_the_transition_time_is_that_of_the_last_change() -> None:
    first = with_condition(status(0), RUNNING, False, "Pending", "a", NOW)
    second = with_condition(first, RUNNING, False, "Starting", "b", LATER)
    third = with_condition(second, RUNNING, True, "Training", "c", LATER)
    assert [find(each, RUNNING).last_transition_time for each in (first, second, third)] == [NOW, NOW, LATER]  # type: ignore[union-attr]


def test_setting_the_same_again_changes_nothing() -> None:
    once = with_condition(status(0), ACCEPTED, True, "SpecValid", "", NOW)
    assert with_condition(once, ACCEPTED, True, "SpecValid", "", LATER) == once


def test_conditions_are_in_a_fixed_order_and_name_the_generation() -> None:
    made = with_condition(status(0, observed_generation=4), FAILED, True, "x", "", NOW)
    made = with_condition(made, ACCEPTED, True, "x", "", NOW)
    assert [condition.type for condition in made.conditions] == [ACCEPTED, FAILED]
    assert {condition.observed_generation for condition in made.conditions} == {4}
