"""Passes of one rank that holds a whole model, and what they have in common with those of a pipeline."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from ringtrain.data.batch import Batch
from ringtrain.models.language_model import LanguageModel


@dataclass(frozen=True, slots=True)
class Sums:
    """Of one batch."""

    loss: float
    """In nats."""
    tokens: int
    """Targets that count."""


class Passes(Protocol):
    @property
    def passes(self) -> int:
        """Backward passes of each parameter in one batch."""
        ...

    def train(self, batch: Batch) -> Sums:
        """Forward and backward passes; adds to the parameters' gradients those of the loss x the precision's scale."""
        ...

    def evaluate(self, batch: Batch) -> Sums:
        """Forward passes alone."""
        ...


class Precision:
    """In which dtype is computed, and how much larger than the loss what is derived is."""

    def __init__(self, name: Literal["fp32", "bf16", "fp16"], device: torch.device) -> None:
        self.scale = 1.0
        """Change it between batches only."""
        self._device = device.type
        self._dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]

    @property
    def logits(self) -> torch.dtype:
        """Of a matrix product's result."""
        return self._dtype

    def computing(self) -> AbstractContextManager[object]:
        """Around forward passes."""
        if self._dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self._device, self._dtype)


class WholeModel:
    """Passes without a pipeline."""

    passes = 1

    def __init__(self, model: LanguageModel, precision: Precision) -> None:
        self._model = model
        self._precision = precision

    def train(self, batch: Batch) -> Sums:
        with self._precision.computing():
            loss, tokens = self._model.loss(batch)
        torch.autograd.backward(loss * self._precision.scale)
        return Sums(loss.item(), int(tokens))

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Sums:
        with self._precision.computing():
            loss, tokens = self._model.loss(batch)
        return Sums(loss.item(), int(tokens))
