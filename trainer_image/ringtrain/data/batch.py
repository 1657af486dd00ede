"""One micro-batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

IGNORED = -100
"""A target that counts for nothing."""


@dataclass(frozen=True, slots=True)
class Batch:
    tokens: Tensor
    """int64 [batch, context]: the model's input."""
    targets: Tensor
    """int64 [batch, context]: the right token of each position, or IGNORED."""

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.tokens.to(device), self.targets.to(device))
