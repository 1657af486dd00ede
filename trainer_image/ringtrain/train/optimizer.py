"""AdamW with weight decay on matrices only, its state keyed by parameter name.

Not torch.optim's: that imports the compiler (as much processor time as torch itself, in every rank that starts or
recovers), and keys its state by position, which means nothing in another model split.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ringtrain.checkpoint.tree import rows
from ringtrain.comm.local import local
from ringtrain.contract.trainer_config import OptimizerConfig

_EPSILON = 1e-8
_PORTION = 2**22
"""Values that are updated at once, or one parameter."""


@dataclass(frozen=True, slots=True)
class _Moments:
    """Running means of a parameter's gradient, and of its square; shape and dtype of what this rank holds of it."""

    first: Tensor
    second: Tensor


class AdamW:
    """Decoupled weight decay, bias-corrected moments. Biases and the gains of norms have no decay: pulling them to zero
    helps nothing."""

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        self._config = config
        self._steps = 0
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._moments = {
            name: _Moments(torch.zeros_like(local(p)), torch.zeros_like(local(p)))
            for name, p in self._parameters.items()
        }

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Moves every parameter along its gradient, which must be there, at learning rate `rate`; in place."""
        self._steps += 1
        matrices = [name for name, p in self._parameters.items() if p.dim() >= 2]
        vectors = [name for name, p in self._parameters.items() if p.dim() < 2]
        for names, decay in ((matrices, self._config.weight_decay), (vectors, 0.0)):
            for some in self._portions(names):
                self._update(some, rate, decay)

    def _portions(self, names: list[str]) -> Iterator[list[str]]:
        """So that what an update makes besides the state is small, however large the model."""
        some: list[str] = []
        values = 0
        for name in names:
            some.append(name)
            values += self._moments[name].first.numel()
            if values >= _PORTION:
                yield some
                some, values = [], 0
        if some:
            yield some

    def _update(self, names: list[str], rate: float, decay: float) -> None:
        beta1, beta2 = self._config.beta1, self._config.beta2
        whole = [self._parameters[name] for name in names]
        parameters = [local(p) for p in whole]
        gradients = [local(p.grad) for p in whole if p.grad is not None]
        first = [self._moments[name].first for name in names]
        second = [self._moments[name].second for name in names]
        torch._foreach_mul_(parameters, 1 - rate * decay)
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        scale = torch._foreach_sqrt(second)
        torch._foreach_div_(scale, math.sqrt(1 - beta2**self._steps))
        torch._foreach_add_(scale, _EPSILON)
        torch._foreach_addcdiv_(parameters, first, scale, -rate / (1 - beta1**self._steps))

    def clear_gradients(self) -> None:
        # To None, not to zero: adding to zeros would lose the sign of a negative zero, and with it the same bits.
        for parameter in self._parameters.values():
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The living tensors, by parameter name."""
        return {
            "steps": self._steps,
            "first": {name: moments.first for name, moments in self._moments.items()},
            "second": {name: moments.second for name, moments in self._moments.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies what `state_dict` gave, or Pieces of it. Raises KeyError when a parameter is missing."""
        self._steps = state["steps"]
        for name, moments in self._moments.items():
            moments.first.copy_(rows(state["first"][name]))
            moments.second.copy_(rows(state["second"][name]))
