"""The learning rate, as a pure function of the round: nothing to save, nothing to restore."""

import math

from ringtrain.contract.trainer_config import OptimizerConfig


def learning_rate(config: OptimizerConfig, round: int, rounds: int) -> float:
    """Of `round` (1..rounds): linear up to the peak over the warm-up, then a cosine down to the minimum."""
    if round <= config.warmup_rounds:
        return config.learning_rate * round / config.warmup_rounds
    progress = (round - config.warmup_rounds) / (rounds - config.warmup_rounds)
    swing = config.learning_rate - config.minimum_learning_rate
    return config.minimum_learning_rate + swing * (1 + math.cos(math.pi * progress)) / 2
