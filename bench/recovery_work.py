"""What all systems train: the built-in GPT `nano`, on the sources of Python's standard library."""

from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, TrainerConfig

CONFIG = TrainerConfig(
    rounds=100_000,
    model=ModelConfig(size="nano"),
    data=DataConfig(paths=("{stdlib}/*.py",)),
    batch=BatchConfig(per_rank=8),
)
HANG_SECONDS = 5
"""After which each system may take a rank that says nothing for hung. torchft's own examples set as much for Gloo."""
