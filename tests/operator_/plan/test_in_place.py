from operator_.plan.builders import NOW, job, pod, status
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.report import JobReport, RankFailure
from ringtrain_operator.api.spec import FailureAction, FailureRule
from ringtrain_operator.api.status import FAILURES_KEPT, Failure, Member, TrainingJobStatus
from ringtrain_operator.plan.in_place import new_failures as found_in
from ringtrain_operator.plan.observed import Job


def new_failures(
    of: Job, before: TrainingJobStatus, report: JobReport | None, *rules: FailureRule
) -> tuple[TrainingJobStatus, list[Failure]]:
    return found_in(of, before, [pod(0), pod(1)], report, rules)


def failure(number: int, code: int = 137, replica: int = 1, epoch: int = 0) -> RankFailure:
    return RankFailure(
        time=NOW, replica=replica, epoch=epoch, number=number, rank=3, exit_code=code, message="x" * 900, round=number
    )


def report(*failures: RankFailure) -> JobReport:
    return JobReport(coordinator_id="a", rank_failures=failures)


def members(*epochs: int) -> tuple[Member, ...]:
    return tuple(Member(index=index, epoch=epoch) for index, epoch in enumerate(epochs))


BEFORE = status(0, members=members(0, 0))


def test_each_is_counted_once() -> None:
    after, found = new_failures(job(), BEFORE, report(failure(1), failure(2)))
    assert [(one.rank, one.replica, one.pod, one.reason, one.in_place) for one in found] == [
        (3, 1, "gpt-1-0", "Signal9", True)
    ] * 2
    assert all(one.counted for one in found)
    assert [one.node for one in found] == ["node-1"] * 2
    assert [member.in_place_restarts for member in after.members] == [0, 2]
    assert after.failures == tuple(found)
    # A new coordinator is told of the latest again, in any order.
    assert new_failures(job(), after, report(failure(2), failure(1))) == (after, [])
    again, found = new_failures(job(), after, report(failure(3), failure(2)))
    assert (len(found), again.members[1].in_place_restarts) == (1, 3)


def test_the_agent_knows_the_generation_best() -> None:
    before = BEFORE.model_copy(update={"generation": "0.4"})
    told = failure(1).model_copy(update={"generation": "0.5"})
    _, found = new_failures(job(), before, report(told, failure(2)))
    assert [one.generation for one in found] == ["0.5", "0.4"]


def test_pods_count_for_themselves() -> None:
    after, found = new_failures(job(), BEFORE, report(failure(1, replica=0), failure(1, replica=1)))
    assert [one.replica for one in found] == [0, 1]
    # A pod that took another's place begins anew, and what is gone was counted as a whole.
    replaced = after.model_copy(update={"members": members(0, 4)})
    assert new_failures(job(), replaced, report(failure(2, replica=1)))[1] == []
    assert len(new_failures(job(), replaced, report(failure(1, replica=1, epoch=4)))[1]) == 1


def test_no_report_and_no_failures_change_nothing() -> None:
    assert new_failures(job(), BEFORE, None) == (BEFORE, [])
    assert new_failures(job(), BEFORE, report()) == (BEFORE, [])


def test_what_is_not_the_jobs_own_fault_spends_no_budget() -> None:
    _, (found,) = new_failures(job(), BEFORE, report(failure(1, ExitCode.ENDED_WITH_PEER)))
    assert (found.counted, found.action) == (False, FailureAction.RESTART_UNCOUNTED)


def test_the_jobs_rules_hold_for_ranks_too() -> None:
    rule = FailureRule(action=FailureAction.FAIL_JOB, exit_codes=(137,), reasons=("Signal9",))
    _, found = new_failures(job(), BEFORE, report(failure(1), failure(2, 139)), rule)
    assert [one.action for one in found] == [FailureAction.FAIL_JOB, FailureAction.RESTART]


def test_the_status_stays_small() -> None:
    after, found = new_failures(job(), BEFORE, report(*(failure(number) for number in range(1, 21))))
    assert len(after.failures) == FAILURES_KEPT
    assert max(len(one.message) for one in found) == 500
