from operator_.plan.builders import NOW, job, status
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.report import JobReport, RankFailure
from ringtrain_operator.api.status import FAILURES_KEPT, Member
from ringtrain_operator.plan.in_place import new_failures


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
    assert (after.restarts, after.counted_restarts) == (2, 2)
    assert [member.in_place_restarts for member in after.members] == [0, 2]
    assert after.failures == tuple(found)
    # A new coordinator is told of the latest again, in any order.
    assert new_failures(job(), after, report(failure(2), failure(1))) == (after, [])
    again, found = new_failures(job(), after, report(failure(3), failure(2)))
    assert (len(found), again.restarts) == (1, 3)


def test_pods_count_for_themselves() -> None:
    after, found = new_failures(job(), BEFORE, report(failure(1, replica=0), failure(1, replica=1)))
    assert ([one.replica for one in found], after.restarts) == ([0, 1], 2)
    # A pod that took another's place begins anew, and what is gone was counted as a whole.
    replaced = after.model_copy(update={"members": members(0, 4)})
    assert new_failures(job(), replaced, report(failure(2, replica=1)))[1] == []
    assert len(new_failures(job(), replaced, report(failure(1, replica=1, epoch=4)))[1]) == 1


def test_no_report_and_no_failures_change_nothing() -> None:
    assert new_failures(job(), BEFORE, None) == (BEFORE, [])
    assert new_failures(job(), BEFORE, report()) == (BEFORE, [])


def test_what_is_not_the_jobs_own_fault_spends_no_budget() -> None:
    after, (found,) = new_failures(job(), BEFORE, report(failure(1, ExitCode.ENDED_WITH_PEER)))
    assert (found.counted, after.restarts, after.counted_restarts) == (False, 1, 0)


def test_the_status_stays_small() -> None:
    after, found = new_failures(job(), BEFORE, report(*(failure(number) for number in range(1, 21))))
    assert len(after.failures) == FAILURES_KEPT
    assert max(len(one.message) for one in found) == 500
