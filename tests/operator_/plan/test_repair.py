from operator_.plan.builders import NOW, members, status
from ringtrain_operator.api.spec import FailureAction, FaultTolerance
from ringtrain_operator.api.status import Failure, Incident, JobPhase
from ringtrain_operator.plan.repair import events, repaired

TOLERANCE = FaultTolerance(max_restarts=5)


def failure(replica: int, action: FailureAction = FailureAction.RESTART, *, in_place: bool = False) -> Failure:
    counted = action is FailureAction.RESTART
    return Failure(
        time=NOW,
        replica=replica,
        pod=f"gpt-{replica}-0",
        reason="Hang",
        action=action,
        counted=counted,
        in_place=in_place,
    )


def test_nothing_is_repaired_without_failures() -> None:
    assert repaired(status(0, 0), [], TOLERANCE, NOW) == status(0, 0)


def test_replicas_that_failed_share_a_raised_epoch() -> None:
    after = repaired(status(0, 0, 0), [failure(0), failure(2)], TOLERANCE, NOW)
    assert [member.epoch for member in after.members] == [1, 0, 1]
    assert (after.epoch, after.restarts, after.counted_restarts, after.phase) == (1, 1, 1, JobPhase.RESTARTING)
    assert after.incident == Incident(generation="", failed=("replica 0", "replica 2"), counted=True)


def test_a_rank_that_was_started_again_in_its_pod_needs_no_new_one() -> None:
    after = repaired(status(0, 0), [failure(0, in_place=True)], TOLERANCE, NOW)
    assert (after.members, after.epoch, after.restarts) == (members(0, 0), 0, 1)


def test_each_failure_is_told_with_the_number_of_its_restart() -> None:
    failures = [
        failure(0),
        failure(1, FailureAction.IGNORE),
        failure(1, FailureAction.RESTART_UNCOUNTED),
        failure(1, FailureAction.RESTART_UNCOUNTED),
        failure(2, in_place=True),
    ]
    told = events(status(0, 0, 0, restarts=3, counted_restarts=1), failures, TOLERANCE, NOW)
    assert [(event.type, event.message.partition("; ")[2]) for event in told] == [
        ("Warning", "replaced (restart 4; 2 of 5 counted)"),
        ("Normal", "replaced (ignored by a rule of faultTolerance.rules)"),
        ("Warning", "replaced (restart 4; 2 of 5 counted)"),
        ("Warning", "replaced (restart 5; 2 of 5 counted)"),
        ("Warning", "started again in its pod (restart 5; 3 of 5 counted)"),
    ]
