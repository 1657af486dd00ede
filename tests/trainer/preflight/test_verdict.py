from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.report import Fitness
from ringtrain.preflight.pairs import peers
from ringtrain.preflight.verdict import Measured, judge, told


def ring(products: Mapping[int, float | None], links: Mapping[int, float | None] | None = None) -> list[Measured]:
    """Of ranks that take `products`; an exchange takes 0.1 s, or as long as the slower of its two ranks' `links`."""
    size, links = len(products), links or {}
    found = []
    for rank, product in sorted(products.items()):
        exchanges = {}
        for peer in filter(lambda peer: peer is not None, peers(size, 1, rank)):
            assert peer is not None
            both = [links.get(one, 0.1) for one in (rank, peer)]
            exchanges[peer] = None if None in both else max(one for one in both if one is not None)
        found.append(Measured(product, exchanges))
    return found


EQUAL = {0: 0.02, 1: 0.021, 2: 0.019, 3: 0.02}


def test_equal_ranks_are_fit() -> None:
    verdict = judge(ring(EQUAL), 3)
    assert verdict.unfit == {}
    assert verdict.fitness[1] == Fitness(product=0.021, exchange=0.1)
    assert told(verdict.fitness) == (
        "all 4 ranks are fit: product 0.02 s (rank 1, the slowest: 0.021 s), "
        "exchange 0.1 s (rank 0, the slowest: 0.1 s)"
    )


def test_a_wrong_product_is_unfit_and_no_measure_for_others() -> None:
    verdict = judge(ring(EQUAL | {2: None}), 3)
    assert verdict.unfit == {2: "its matrix product is wrong"}
    assert set(verdict.fitness) == {0, 1, 3}


def test_a_slow_product_is_told_with_the_median() -> None:
    assert judge(ring(EQUAL | {2: 0.061}), 3).unfit == {
        2: "its matrix product took 0.061 s, the median of all ranks is 0.02 s "
        "(faultTolerance.preflight.slowerThan is 3)"
    }
    assert judge(ring(EQUAL | {2: 0.06}), 3).unfit == {}
    assert judge(ring(EQUAL | {2: 0.061}), 4).unfit == {}


@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_slow_link_makes_its_own_rank_unfit_and_not_its_peers(size: int) -> None:
    ranks = dict.fromkeys(range(size), 0.02)
    assert list(judge(ring(ranks, {1: 0.5}), 3).unfit) == [1]
    unfit = judge(ring(ranks, {1: None}), 3).unfit
    assert unfit == {1: "no exchange with rank 0 or 2 came to its end in time, with what was sent"}


def test_what_differs_by_little_is_not_slow() -> None:
    ranks = dict.fromkeys(range(3), 0.02)
    quick = dict.fromkeys(range(3), 0.001)
    assert judge(ring(ranks, quick | {1: 0.02}), 3).unfit == {}
    assert list(judge(ring(ranks, quick | {1: 0.022}), 3).unfit) == [1]


def test_of_two_the_slower_one_is_compared_with_the_quicker() -> None:
    assert list(judge(ring({0: 0.1, 1: 0.02}), 3).unfit) == [0]
    # Of one broken link nobody can say whose it is.
    assert list(judge(ring({0: 0.02, 1: 0.02}, {1: None}), 3).unfit) == [0, 1]
    assert judge(ring({0: 0.02, 1: 0.02}, {1: 0.9}), 3).unfit == {}


def test_an_exchange_counts_as_the_later_of_both_saw_it() -> None:
    ranks = [Measured(0.02, {1: 0.1, 2: 0.1}), Measured(0.02, {0: 0.9, 2: 0.9}), Measured(0.02, {1: 0.1, 0: 0.1})]
    assert list(judge(ranks, 3).unfit) == [1]


def test_a_rank_alone_can_only_be_wrong() -> None:
    assert judge([Measured(9.0, {})], 1.1).unfit == {}
    assert judge([Measured(None, {})], 1.1).unfit == {0: "its matrix product is wrong"}
    assert told(judge([Measured(9.0, {})], 3).fitness) == "the only rank is fit: product 9 s (rank 0, the slowest: 9 s)"


@given(st.lists(st.none() | st.floats(1e-6, 1e3), min_size=1, max_size=9), st.floats(1.01, 10))
def test_every_rank_is_either_fit_or_not_and_one_that_is_right_is_fit(
    products: list[float | None], slower_than: float
) -> None:
    verdict = judge(ring(dict(enumerate(products))), slower_than)
    assert verdict.fitness.keys() | verdict.unfit.keys() == set(range(len(products)))
    assert not verdict.fitness.keys() & verdict.unfit.keys()
    assert bool(verdict.fitness) == any(product is not None for product in products)
