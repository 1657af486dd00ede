"""Ranks of one machine that share out parameters, by real processes."""

import pytest

from trainer.comm import shards_bodies
from trainer.comm.ranks import Ranks

pytestmark = pytest.mark.distributed

ONE, OTHER = "0" * 64, "1" * 64


def test_parts_are_gathered_and_sums_scattered() -> None:
    with Ranks() as ranks:
        results = ranks.run(3, shards_bodies.gather_and_sum)
    for rank, (whole, part, metered, refused) in enumerate(results):
        assert whole == [0, 0, 1, 1, 2, 2]
        assert part == [6 * 2 * rank, 6 * (2 * rank + 1)]
        assert metered == (2 * 8 + 2 * 8, True)
        assert "can only be asked for sums" in refused


@pytest.mark.parametrize(
    ("digests", "expected"),
    [
        ([ONE, OTHER, ONE, OTHER], "agreed"),
        ([ONE, OTHER, ONE, ONE], "the ranks hold different states of round 7"),
    ],
)
def test_only_twins_hold_the_same(digests: list[str], expected: str) -> None:
    with Ranks() as ranks:
        results = ranks.run(4, shards_bodies.agree_on_parts, digests)
    assert all(result.startswith(expected) for result in results)


def test_whole_parameters_are_refused_where_they_should_be_shared_out() -> None:
    with Ranks() as ranks:
        results = ranks.run(2, shards_bodies.reduce_whole_parameters)
    assert all("parameters of the model are whole" in result for result in results)
