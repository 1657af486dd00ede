from operator_.plan.builders import NOW
from ringtrain_operator.api.status import Failure, Incident
from ringtrain_operator.plan import incidents


def failure(rank: int | None, generation: str = "0.3", *, replica: int = 1, counted: bool = True) -> Failure:
    return Failure(
        time=NOW, replica=replica, rank=rank, pod="p", reason="UserError", counted=counted, generation=generation
    )


def test_ranks_that_fail_in_one_generation_are_one() -> None:
    found = incidents.of(None, failure(0))
    assert (incidents.begins(found), found) == (True, Incident(generation="0.3", failed=("rank 0",), counted=True))
    joined = incidents.of(found, failure(2))
    assert not incidents.begins(joined)
    assert joined.failed == ("rank 0", "rank 2")


def test_another_generation_or_the_same_rank_again_is_another() -> None:
    first = incidents.of(None, failure(0))
    for other in (failure(2, "0.4"), failure(2, ""), failure(0)):
        assert incidents.begins(incidents.of(first, other))


def test_replicas_stand_for_ranks_that_nobody_knows() -> None:
    first = incidents.of(None, failure(None, replica=0))
    assert not incidents.begins(incidents.of(first, failure(0, replica=0)))
    assert not incidents.begins(incidents.of(first, failure(None, replica=1)))
    assert incidents.begins(incidents.of(first, failure(None, replica=0)))


def test_it_counts_when_any_of_it_does() -> None:
    spared = incidents.of(None, failure(0, counted=False))
    assert not spared.counted
    assert incidents.of(spared, failure(1)).counted
    assert incidents.of(incidents.of(spared, failure(1)), failure(2, counted=False)).counted


def test_failures_are_grouped_in_their_order() -> None:
    crash = [failure(0), failure(1), failure(0), failure(1), failure(2, "0.4")]
    assert incidents.grouped(crash) == [crash[:2], crash[2:4], crash[4:]]
    assert incidents.grouped([]) == []
