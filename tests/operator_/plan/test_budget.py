from collections.abc import Sequence
from datetime import timedelta

from operator_.plan import builders
from operator_.plan.builders import NOW, status
from ringtrain_operator.api.spec import FailureAction, FaultTolerance
from ringtrain_operator.api.status import Failure, TrainingJobStatus
from ringtrain_operator.plan.budget import GivenUp, charged, told
from ringtrain_operator.plan.budget import judge as judge_at
from ringtrain_operator.plan.observed import Job

FAIL = FailureAction.FAIL_JOB
WITHIN_A_MINUTE = FaultTolerance(max_restarts=2, restart_window_seconds=60)


def job(log_file: str = "") -> Job:
    return builders.job(log_file=log_file)


def judge(of: Job, before: TrainingJobStatus, failures: Sequence[Failure], max_restarts: int) -> GivenUp | None:
    return judge_at(of, before, failures, FaultTolerance(max_restarts=max_restarts), NOW)


def failure(
    code: int = 82,
    reason: str = "Hang",
    action: FailureAction = FailureAction.RESTART,
    *,
    counted: bool = True,
    rank: int = 3,
) -> Failure:
    return Failure(
        time=NOW,
        replica=1,
        rank=rank,
        pod="gpt-1-0",
        node="node-1",
        reason=reason,
        exit_code=code,
        message="silent",
        action=action if counted else FailureAction.RESTART_UNCOUNTED,
        counted=counted and action is FailureAction.RESTART,
    )


def test_nothing_is_given_up_without_failures() -> None:
    assert judge(job(), status(0, counted_restarts=2), [], 2) is None


def test_the_last_restart_may_be_spent() -> None:
    assert judge(job(), status(0, counted_restarts=1), [failure()], 2) is None


def test_one_more_ends_the_job_with_words_to_act_on() -> None:
    given_up = judge(job(), status(0, counted_restarts=2, restarts=5), [failure()], 2)
    assert given_up is not None
    assert given_up.reason == "MaxRestartsExceeded"
    assert given_up.message == (
        "restarted 2 of 2 times (faultTolerance.maxRestarts); last failure: rank 3 on pod gpt-1-0, node node-1: Hang: "
        "silent; see kubectl logs -n team gpt-1-0, or raise maxRestarts and apply the job anew"
    )


def test_a_rank_that_fails_again_and_again_is_counted_each_time() -> None:
    assert judge(job(), status(0, counted_restarts=1), [failure(), failure()], 2) is not None


def test_ranks_that_fail_together_are_counted_once() -> None:
    together = [failure(rank=rank) for rank in range(9)]
    assert judge(job(), status(0, counted_restarts=1), together, 2) is None
    after = charged(status(0, counted_restarts=1), together, FaultTolerance(), NOW)
    assert (after.restarts, after.counted_restarts) == (1, 2)
    # What is seen of it later costs no more, but a rank that fails anew does.
    assert judge(job(), after, [failure(rank=10)], 2) is None
    assert judge(job(), after, [failure(rank=0)], 2) is not None


def test_a_failure_that_counts_makes_its_whole_incident_count() -> None:
    spared = charged(status(0), [failure(counted=False)], WITHIN_A_MINUTE, NOW)
    after = charged(spared, [failure(rank=1), failure(rank=2)], WITHIN_A_MINUTE, NOW)
    assert (after.restarts, after.counted_restarts, after.recent_counted_restarts) == (1, 1, (NOW,))


def test_a_budget_that_was_lowered_ends_nothing_before_the_next_failure() -> None:
    assert judge(job(), status(0, counted_restarts=5), [], 2) is None
    assert judge(job(), status(0, counted_restarts=5), [failure()], 2) is not None


def test_what_is_not_counted_never_ends_a_job() -> None:
    assert judge(job(), status(0, counted_restarts=2), [failure(counted=False)] * 5, 2) is None


def test_a_bad_configuration_ends_the_job_at_once() -> None:
    given_up = judge(job(), status(0), [failure(code=78, reason="BadConfiguration", action=FAIL)], 100)
    assert given_up is not None
    assert given_up.reason == "BadConfiguration"
    assert "correct the job" in given_up.message
    assert "kubectl logs -n team gpt-1-0" in given_up.message


def test_where_logs_are_files_the_file_is_named() -> None:
    here = job(log_file="/runs/{{gpt}}/pods/{pod}/log")
    for code, spent_before in ((78, 0), (82, 2)):
        fatal = failure(code=code, action=FAIL if code == 78 else FailureAction.RESTART)
        given_up = judge(here, status(0, counted_restarts=spent_before), [fatal], 2)
        assert given_up is not None
        assert "/runs/{gpt}/pods/gpt-1-0/log" in given_up.message
        assert "kubectl" not in given_up.message


def test_a_rule_of_the_users_ends_the_job_at_once() -> None:
    given_up = judge(job(), status(0), [failure(action=FAIL)], 100)
    assert given_up is not None
    assert given_up.reason == "Hang"
    assert "a rule of faultTolerance.rules" in given_up.message


def test_both_counts_are_told() -> None:
    tolerance = FaultTolerance(max_restarts=10)
    assert told(status(0, restarts=3, counted_restarts=2), tolerance, NOW) == "restart 3; 2 of 10 counted"


def test_what_is_not_counted_is_a_restart_and_what_is_ignored_is_none() -> None:
    failures = [failure(), failure(counted=False), failure(action=FailureAction.IGNORE)]
    after = charged(status(0), failures, FaultTolerance(), NOW)
    assert (after.restarts, after.counted_restarts, after.recent_counted_restarts) == (2, 1, ())


def test_only_restarts_within_the_window_spend_the_budget() -> None:
    after = charged(status(0), [failure(), failure(counted=False), failure()], WITHIN_A_MINUTE, NOW)
    assert told(after, WITHIN_A_MINUTE, NOW) == "restart 3; 2 of 2 counted within 60 s"
    given_up = judge_at(job(), after, [failure()], WITHIN_A_MINUTE, NOW + timedelta(seconds=59))
    assert given_up is not None
    assert "restarted 2 of 2 times within 60 s" in given_up.message
    later = NOW + timedelta(seconds=60)
    assert judge_at(job(), after, [failure()], WITHIN_A_MINUTE, later) is None
    again = charged(after, [failure()], WITHIN_A_MINUTE, later)
    assert (again.counted_restarts, again.recent_counted_restarts) == (3, (later,))


def test_a_window_that_is_set_later_forgets_what_was_before() -> None:
    assert judge_at(job(), status(0, counted_restarts=9), [failure()], WITHIN_A_MINUTE, NOW) is None
