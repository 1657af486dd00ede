import pytest

from ringtrain_operator.api.spec import FailureAction, FailureRule
from ringtrain_operator.plan.failure_policy import decide

RESTART, UNCOUNTED, IGNORE, FAIL = FailureAction
NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("reason", "code", "conditions", "action"),
    [
        ("Crashed", 1, NOTHING, RESTART),
        ("UserError", 70, NOTHING, RESTART),
        ("BadConfiguration", 78, NOTHING, FAIL),
        ("Preempted", 80, NOTHING, UNCOUNTED),
        ("Hang", 82, NOTHING, RESTART),
        ("OutOfMemory", 83, NOTHING, RESTART),
        ("OutOfMemory", 137, NOTHING, RESTART),
        ("Stale", 84, NOTHING, UNCOUNTED),
        ("Evicted", 137, {"DisruptionTarget"}, UNCOUNTED),
        ("BadConfiguration", 78, {"DisruptionTarget"}, UNCOUNTED),
        ("EvictedOverLimit", 80, NOTHING, RESTART),
        ("PodDeleted", None, NOTHING, UNCOUNTED),
        ("ContainerStatusUnknown", 255, NOTHING, UNCOUNTED),
    ],
)
def test_the_defaults_are_right_for_most_jobs(
    reason: str, code: int | None, conditions: frozenset[str], action: FailureAction
) -> None:
    assert decide((), reason, code, conditions) is action


def test_the_jobs_own_rules_come_first_and_in_their_order() -> None:
    rules = [
        FailureRule(action=FAIL, exit_codes=(70,), reasons=("UserError",)),
        FailureRule(action=UNCOUNTED, exit_codes=(70, 78)),
        FailureRule(action=RESTART, pod_conditions=("DisruptionTarget", "Ready")),
    ]
    assert decide(rules, "UserError", 70, NOTHING) is FAIL
    assert decide(rules, "Other", 70, NOTHING) is UNCOUNTED
    assert decide(rules, "BadConfiguration", 78, NOTHING) is UNCOUNTED
    assert decide(rules, "Evicted", 137, {"DisruptionTarget"}) is RESTART
    assert decide(rules, "PodDeleted", None, NOTHING) is UNCOUNTED


def test_all_that_a_rule_gives_has_to_fit() -> None:
    rule = FailureRule(action=FAIL, exit_codes=(1,), reasons=("Crashed",), pod_conditions=("Ready",))
    assert decide([rule], "Crashed", 1, {"Ready"}) is FAIL
    for reason, code, conditions in (("Other", 1, {"Ready"}), ("Crashed", 2, {"Ready"}), ("Crashed", 1, NOTHING)):
        assert decide([rule], reason, code, conditions) is RESTART


def test_what_the_operator_does_itself_is_no_failure_of_the_job() -> None:
    rule = FailureRule(action=FAIL, reasons=("SpecChanged",))
    assert decide([rule], "SpecChanged", None, NOTHING) is UNCOUNTED
