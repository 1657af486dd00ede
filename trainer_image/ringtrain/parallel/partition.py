"""Where a model is cut into pipeline stages: pure."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ringtrain.models.costs import Cost

_PARAMETERS_WEIGHT = 1e-3
"""Of two cuts that compute as evenly, the one that fills memory more evenly is better."""


def boundaries(costs: Sequence[Cost], stages: int) -> tuple[int, ...]:
    """The sub-layers with which all stages but the first begin, so that the dearest stage is as cheap as can be.

    Raises ValueError when there are more stages than sub-layers.
    """
    count = len(costs)
    if stages > count:
        raise ValueError(f"{stages} stages for {count} sub-layers: every stage needs one")
    flops = sum(cost.flops for cost in costs) or 1
    parameters = sum(cost.parameters for cost in costs) or 1
    prices = [cost.flops / flops + _PARAMETERS_WEIGHT * cost.parameters / parameters for cost in costs]
    before = np.concatenate([[0.0], np.cumsum(prices)])
    # best[n]: the price of the dearest of some stages that hold the first n sub-layers; one stage at first.
    best = np.where(np.arange(count + 1) > 0, before, np.inf)
    choices = []
    for _ in range(stages - 1):
        dearest = np.maximum(best[:, None], before[None, :] - before[:, None])
        dearest[np.tril_indices(count + 1)] = np.inf
        choices.append(dearest.argmin(axis=0))
        best = dearest.min(axis=0)
    cuts, end = [], count
    for choice in reversed(choices):
        end = int(choice[end])
        cuts.append(end)
    return tuple(reversed(cuts))


def shares(costs: Sequence[Cost], cuts: Sequence[int]) -> tuple[Cost, ...]:
    """What each stage costs."""
    bounds = pairwise([0, *cuts, len(costs)])
    return tuple(sum(costs[begin:end], Cost(0, 0)) for begin, end in bounds)
