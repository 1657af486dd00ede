from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.costs import Cost, sublayer_costs
from ringtrain.parallel.partition import boundaries, shares

COSTS = st.lists(st.integers(1, 1000), min_size=1, max_size=9)


@given(COSTS, st.data())
def test_the_dearest_stage_is_as_cheap_as_can_be(flops: list[int], data: st.DataObject) -> None:
    costs = [Cost(0, each) for each in flops]
    stages = data.draw(st.integers(1, len(costs)))
    dearest = max(share.flops for share in shares(costs, boundaries(costs, stages)))
    every_cut = combinations(range(1, len(costs)), stages - 1)
    assert dearest == min(max(share.flops for share in shares(costs, cuts)) for cuts in every_cut)


@given(COSTS, st.data())
def test_every_stage_has_a_sublayer(flops: list[int], data: st.DataObject) -> None:
    costs = [Cost(0, each) for each in flops]
    stages = data.draw(st.integers(1, len(costs)))
    cuts = boundaries(costs, stages)
    assert len(cuts) == stages - 1
    assert list(cuts) == sorted(set(cuts))
    assert all(0 < cut < len(costs) for cut in cuts)


def test_memory_decides_between_cuts_that_compute_as_evenly() -> None:
    costs = [Cost(10, 5), Cost(0, 0), Cost(10, 0), Cost(10, 5)]
    assert shares(costs, boundaries(costs, 2)) in ((Cost(10, 5), Cost(20, 5)), (Cost(20, 5), Cost(10, 5)))
    heavy = [Cost(10, 5), Cost(10, 0), Cost(0, 5)]
    assert boundaries(heavy, 2) == (1,)


def test_more_stages_than_sublayers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 stages for 2 sub-layers"):
        boundaries([Cost(1, 1), Cost(1, 1)], 3)


def test_the_output_projection_counts() -> None:
    """Eight layers of width 128 are cut in the middle, unless there are so many words that the head is half of it."""
    few, many = (sublayer_costs(ModelConfig(layers=8, width=128, heads=4), words) for words in (256, 16_000))
    assert boundaries(few, 2) in ((8,), (9,))
    assert boundaries(many, 2)[0] >= 13
