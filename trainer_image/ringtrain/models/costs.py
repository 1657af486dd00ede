"""What each sub-layer of a model costs, counted: pure."""

from dataclasses import dataclass

from ringtrain.contract.trainer_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Cost:
    parameters: int
    flops: int
    """Of the forward pass of one token; the backward pass is twice that everywhere."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.parameters + other.parameters, self.flops + other.flops)


def sublayer_costs(config: ModelConfig, vocabulary: int) -> tuple[Cost, ...]:
    """By sub-layer; the first has the embedding's cost too, the last the head's and the output projection's.

    A matrix product of m x n weights is 2 m n operations a token; attention adds 4 x width operations for every token
    that a token sees (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table 1).
    """
    layers, _, width = config.shape
    seen = config.context_length // 2 if config.kind == "gpt" else config.context_length
    norm = Cost(2 * width, 0)
    attention = norm + Cost(4 * width**2 + 4 * width, 8 * width**2 + 4 * width * seen)
    feed_forward = norm + Cost(8 * width**2 + 5 * width, 16 * width**2)
    costs = [attention, feed_forward] * layers
    costs[0] += Cost((vocabulary + config.context_length) * width, 0)
    costs[-1] += norm + Cost(vocabulary * width, 2 * vocabulary * width)
    if config.kind == "encoder":
        costs[-1] += norm + Cost(width**2 + width, 2 * width**2)
    return tuple(costs)


def model_flops(config: ModelConfig, vocabulary: int) -> int:
    """Of the forward and the backward pass of one token through the whole model; what is computed twice to save memory
    counts once."""
    return 3 * sum(cost.flops for cost in sublayer_costs(config, vocabulary))
