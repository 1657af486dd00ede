"""Which rank holds what, in words: pure."""

from collections.abc import Sequence

from ringtrain.models.costs import Cost
from ringtrain.models.stage import Stage
from ringtrain.parallel.partition import shares


def stage_texts(stages: Sequence[Stage], costs: Sequence[Cost]) -> tuple[str, ...]:
    """One line for each stage of a model whose sub-layers have these costs."""
    parts = shares(costs, [stage.begin for stage in stages[1:]])
    flops = sum(cost.flops for cost in costs)
    return tuple(
        f"{stage}; {part.parameters / 1e6:.2f} M parameters, {part.flops / flops:.0%} of the operations"
        for stage, part in zip(stages, parts, strict=True)
    )
