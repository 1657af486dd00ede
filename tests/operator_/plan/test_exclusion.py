from datetime import timedelta
from typing import Any

import pytest

from operator_.plan.builders import NOW, status
from ringtrain.contract.preflight import Preflight
from ringtrain_operator.api.spec import FailureAction, FaultTolerance, NodeExclusion
from ringtrain_operator.api.status import ExcludedNode, Failure
from ringtrain_operator.plan.exclusion import updated

POLICY = NodeExclusion(after_failures=3, window_seconds=600, max_nodes=1)
TOLERANCE = FaultTolerance(node_exclusion=POLICY)
CHECKED = FaultTolerance(preflight=Preflight())


def failures(count: int, node: str | None = "bad", reason: str = "Hang", **fields: Any) -> tuple[Failure, ...]:
    given: dict[str, Any] = {"time": NOW, "replica": 0, "pod": "p", "node": node, "reason": reason} | fields
    return (Failure(**given),) * count


def excluded(*of: Failure, tolerance: FaultTolerance = TOLERANCE) -> list[str]:
    after, _ = updated(status(0, failures=of), tolerance, NOW)
    return [node.name for node in after.excluded_nodes]


def test_enough_failures_on_one_node_exclude_it_and_are_told() -> None:
    mixed = (*failures(2), *failures(1, reason="Signal9", exit_code=137))
    after, events = updated(status(0, failures=mixed), TOLERANCE, NOW)
    assert after.excluded_nodes == (ExcludedNode(name="bad", time=NOW, reason="2 x Hang, 1 x Signal9"),)
    (event,) = events
    assert (event.type, event.reason) == ("Warning", "NodeExcluded")
    assert event.message == "no new pod of the job runs on node bad for 0:10:00: 2 x Hang, 1 x Signal9"
    assert updated(after, TOLERANCE, NOW) == (after, ())


def test_fewer_failures_or_no_policy_exclude_nothing() -> None:
    assert excluded(*failures(2)) == []
    assert excluded(*failures(5), tolerance=FaultTolerance()) == []
    assert excluded(*failures(5, node=None)) == []


def test_ranks_that_fail_together_on_a_node_are_one_failure_of_it() -> None:
    together = [one for rank in range(8) for one in failures(1, rank=rank)]
    assert excluded(*together) == []
    assert excluded(*together, *together) == []
    assert excluded(*together, *together, *together) == ["bad"]


def test_a_job_that_fails_elsewhere_as_often_is_at_fault_itself() -> None:
    assert excluded(*failures(3), *failures(2, "other"), *failures(1, "third")) == []
    assert excluded(*failures(3), *failures(2, "other")) == ["bad"]


@pytest.mark.parametrize(
    "of",
    [
        {"reason": "UserError", "exit_code": 70},
        {"reason": "BadConfiguration", "exit_code": 78},
        {"reason": "OutOfMemory", "exit_code": 137},
        {"reason": "Evicted", "exit_code": 137},
        {"reason": "PodDeleted"},
        {"reason": "Hang", "action": FailureAction.IGNORE},
    ],
)
def test_what_is_not_the_nodes_fault_does_not_blame_it(of: dict[str, Any]) -> None:
    assert excluded(*failures(5, **of)) == []


def test_a_lost_node_is_to_blame_although_it_is_not_counted() -> None:
    lost = failures(3, reason="NodeLost", counted=False, action=FailureAction.RESTART_UNCOUNTED)
    assert excluded(*lost) == ["bad"]


def test_old_failures_are_forgotten() -> None:
    assert excluded(*failures(1, time=NOW - timedelta(seconds=600)), *failures(2)) == []


def test_never_more_nodes_than_allowed() -> None:
    before = ExcludedNode(name="first", time=NOW, reason="3 x Hang")
    after, events = updated(status(0, excluded_nodes=(before,), failures=failures(3)), TOLERANCE, NOW)
    assert (after.excluded_nodes, events) == ((before,), ())
    more = FaultTolerance(node_exclusion=POLICY.model_copy(update={"max_nodes": 2}))
    after, _ = updated(status(0, excluded_nodes=(before,), failures=failures(3)), more, NOW)
    assert [node.name for node in after.excluded_nodes] == ["first", "bad"]


def test_it_is_over_after_the_window() -> None:
    after, _ = updated(status(0, failures=failures(3)), TOLERANCE, NOW)
    at_last, events = updated(after, TOLERANCE, NOW + timedelta(seconds=600))
    assert at_last.excluded_nodes == ()
    assert [event.reason for event in events] == ["NodeReadmitted"]


def test_an_unfit_node_is_excluded_at_once_and_told() -> None:
    unfit = failures(1, reason="Unfit", exit_code=86)
    for tolerance in (CHECKED, TOLERANCE):
        assert excluded(*unfit, tolerance=tolerance) == ["bad"]
    _, (event,) = updated(status(0, failures=unfit), CHECKED, NOW)
    assert event.message == "no new pod of the job runs on node bad for 1:00:00: 1 x Unfit"
    # However often the job failed elsewhere.
    assert excluded(*unfit, *failures(5, "other"), tolerance=CHECKED) == ["bad"]
    assert excluded(*failures(1, reason="Unfit", action=FailureAction.IGNORE), tolerance=CHECKED) == []


def test_a_check_alone_excludes_for_nothing_else_and_within_the_default_bounds() -> None:
    assert excluded(*failures(9), tolerance=CHECKED) == []
    both = (*failures(1, reason="Unfit"), *failures(1, "other", reason="Unfit"))
    assert excluded(*both, tolerance=CHECKED) == ["bad"]
    assert excluded(*both, tolerance=FaultTolerance(node_exclusion=NodeExclusion(max_nodes=2))) == ["bad", "other"]
    assert excluded(*failures(1, reason="Unfit", time=NOW - timedelta(seconds=3600)), tolerance=CHECKED) == []
