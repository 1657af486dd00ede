from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Beat
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CommunicationTotals, LinkTotals, Progress
from ringtrain.coordinator.state import State
from ringtrain.coordinator.stragglers import ROUNDS, SECONDS, looked_for, stragglers

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GENERATION = Generation(0, 0)


def totals(rounds: int, work: float, length: float = 1.0, codec: str = "zfp-4") -> CommunicationTotals:
    """Of rounds of `length` seconds, in which the rank works for `work`."""
    return CommunicationTotals(
        codec=codec,
        rounds=rounds,
        round_seconds=rounds * length,
        communication_seconds=0,
        exposed_seconds=rounds * (length - work),
        intra=LinkTotals(),
        inter=LinkTotals(),
    )


def of_work(rounds: int, *work: float, length: float = 1.0) -> dict[int, CommunicationTotals]:
    return {rank: totals(rounds, seconds, length) for rank, seconds in enumerate(work)}


@pytest.mark.parametrize(
    ("work", "pipeline", "expected"),
    [
        ((0.6, 0.6, 0.6, 0.9), 1, [3]),
        ((0.6, 0.62, 0.65, 0.7), 1, []),
        ((0.6, 0.9), 1, [1]),
        ((0.9,), 1, []),
        # Too little of the round to wait for.
        ((0.01, 0.01, 0.05), 1, []),
        # The second half of the model is longer in both pipelines; in the second pipeline somebody is slow.
        ((0.4, 0.8, 0.4, 0.8), 2, []),
        ((0.4, 0.7, 0.7, 0.7), 2, [2]),
    ],
)
def test_who_works_longer_than_ranks_with_the_same_work(
    work: tuple[float, ...], pipeline: int, expected: list[int]
) -> None:
    found = stragglers(of_work(5, *[0.1] * len(work)), of_work(25, *work), pipeline)
    assert [one.rank for one in found] == expected


def test_only_the_rounds_in_between_count() -> None:
    before = {0: totals(100, 0.5), 1: totals(100, 0.9)}
    now = {
        rank: CommunicationTotals.model_validate(
            seen.model_dump() | {"rounds": 120, "round_seconds": 120, "exposed_seconds": seen.exposed_seconds + 10}
        )
        for rank, seen in before.items()
    }
    assert stragglers(before, now, 1) == ()


def state(totals: Mapping[int, CommunicationTotals], generation: str = "0.0") -> State:
    return State(
        job="gpt",
        replicas=2,
        procs_per_replica=2,
        coordinator_id="id",
        generation=GENERATION,
        beats={
            rank: Beat(
                rank=rank,
                phase=Phase.TRAINING,
                generation=generation,
                progress=Progress(round=seen.rounds, total_rounds=1000, communication=seen),
            )
            for rank, seen in totals.items()
        },
    )


def later(before: State, totals: Mapping[int, CommunicationTotals]) -> State:
    return looked_for(replace(before, beats=state(totals).beats), NOW)


SLOW = (0.5, 0.5, 0.5, 0.9)


def test_a_straggler_is_told_once_until_it_is_none() -> None:
    one = looked_for(state(of_work(0, *SLOW)), NOW)
    assert (one.notices, one.stragglers) == ((), frozenset())
    one = later(one, of_work(ROUNDS - 1, *SLOW))
    assert one.notices == ()
    one = later(one, of_work(ROUNDS, *SLOW))
    (notice,) = one.notices
    assert notice.reason == "Straggler"
    assert notice.message.startswith("rank 3 works 0.9 s of a round, ranks with the same work 0.5 s")
    assert notice.message.endswith("Look at the node of replica 1")
    one = later(one, of_work(2 * ROUNDS, *SLOW))
    assert (len(one.notices), one.stragglers) == (1, frozenset({3}))
    one = later(one, {rank: totals(3 * ROUNDS, SLOW[rank] - 0.2 * (rank == 3)) for rank in range(4)})
    assert one.stragglers == frozenset()
    one = later(one, of_work(4 * ROUNDS, 0.5, 0.5, 0.5, 0.95))
    assert len(one.notices) == 2


def test_short_rounds_are_looked_at_for_some_seconds() -> None:
    length = SECONDS / (3 * ROUNDS)
    slow = [work * length for work in SLOW]
    one = looked_for(state(of_work(0, *slow, length=length)), NOW)
    one = later(one, of_work(2 * ROUNDS, *slow, length=length))
    assert one.notices == ()
    one = later(one, of_work(3 * ROUNDS + 1, *slow, length=length))
    assert len(one.notices) == 1


def test_totals_that_start_over_are_looked_at_anew() -> None:
    one = looked_for(state(of_work(50, *SLOW)), NOW)
    one = later(one, of_work(10, *SLOW))
    one = later(one, of_work(10 + ROUNDS - 1, *SLOW))
    assert one.notices == ()
    other_codec = {rank: totals(40, work, codec="bf16") for rank, work in enumerate(SLOW)}
    one = later(one, other_codec)
    assert (one.notices, one.measured) == ((), other_codec)


@pytest.mark.parametrize("generation", ["0.1", "0.0"])
def test_nobody_is_judged_before_all_ranks_of_the_generation_have_told(generation: str) -> None:
    few = of_work(5, *SLOW)
    if generation == "0.0":
        del few[2]
    assert looked_for(state(few, generation), NOW).measured == {}
