from operator_.plan.builders import NOW, job, status
from ringtrain_operator.api.status import Failure
from ringtrain_operator.plan.budget import judge, spent


def failure(*, counted: bool = True, code: int = 82, reason: str = "Hang") -> Failure:
    return Failure(
        time=NOW,
        replica=1,
        rank=3,
        pod="gpt-1-0",
        node="node-1",
        reason=reason,
        exit_code=code,
        message="silent",
        counted=counted,
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


def test_several_failures_at_once_are_all_counted() -> None:
    assert judge(job(), status(0, counted_restarts=1), [failure(), failure()], 2) is not None


def test_what_is_not_counted_never_ends_a_job() -> None:
    assert judge(job(), status(0, counted_restarts=2), [failure(counted=False)] * 5, 2) is None


def test_a_bad_configuration_ends_the_job_at_once() -> None:
    given_up = judge(job(), status(0), [failure(code=78, reason="BadConfiguration")], 100)
    assert given_up is not None
    assert given_up.reason == "BadConfiguration"
    assert "correct the job" in given_up.message
    assert "kubectl logs -n team gpt-1-0" in given_up.message


def test_where_logs_are_files_the_file_is_named() -> None:
    here = job(log_file="/runs/{{gpt}}/pods/{pod}/log")
    for code, spent_before in ((78, 0), (82, 2)):
        given_up = judge(here, status(0, counted_restarts=spent_before), [failure(code=code)], 2)
        assert given_up is not None
        assert "/runs/{gpt}/pods/gpt-1-0/log" in given_up.message
        assert "kubectl" not in given_up.message


def test_both_counts_are_told() -> None:
    assert spent(status(0, restarts=3, counted_restarts=2), 10) == "restart 3; 2 of 10 counted"
