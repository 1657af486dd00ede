"""Compute that leaves the CPU free, as a GPU's does: a model that sleeps, and has the gradients of the real one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from ringtrain.data.batch import Batch
from ringtrain.models import LanguageModel

_TIMED_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds that one rank computes, by stage: embedding, sub-layers, head with loss."""

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    """In the order of the forward pass too."""
    optimizer: float

    @property
    def seconds(self) -> float:
        """Of a round."""
        return sum(self.forward) + sum(self.backward) + self.optimizer

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(tuple(value["forward"]), tuple(value["backward"]), value["optimizer"])


class Loss(nn.Module):
    """What DDP wraps: the summed loss of a batch, and its targets' number."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.loss(Batch(tokens, targets))


class Device:
    """Does one thing after another, each for a set time, whatever the CPU does meanwhile."""

    def __init__(self) -> None:
        self.enabled = False
        """If not, everything takes no time."""
        self._free = 0.0

    def start(self) -> None:
        """It is idle, and gets work now."""
        self._free = time.monotonic()

    def work(self, seconds: float) -> None:
        """Returns once it is done."""
        if self.enabled:
            self._free += seconds
            time.sleep(max(0.0, self._free - time.monotonic()))


class Emulated(nn.Module):
    """Has the parameters of `loss`, and in each backward pass gives the gradients that lie there now."""

    def __init__(self, loss: Loss, profile: Profile, device: Device) -> None:
        super().__init__()
        self.model = loss.model
        self._stages = [
            _Stage(parameters, forward, backward, device)
            for parameters, forward, backward in zip(
                _stage_parameters(loss.model), profile.forward, profile.backward, strict=True
            )
        ]
        self._device = device

    def forward(self, tokens: Tensor, _targets: Tensor) -> tuple[Tensor, Tensor]:
        self._device.start()
        passed = torch.zeros((), requires_grad=True)
        for stage in self._stages:
            passed = _Pass.apply(passed, stage, *stage.parameters)  # type: ignore[no-untyped-call]
        return passed, torch.tensor(tokens.numel())


class _Stage:
    def __init__(self, parameters: Sequence[nn.Parameter], forward: float, backward: float, device: Device) -> None:
        self.parameters = parameters
        self.gradients = [p.grad.clone() for p in parameters if p.grad is not None]
        self.forward: Callable[[], None] = lambda: device.work(forward)
        self.backward: Callable[[], None] = lambda: device.work(backward)


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passed: Tensor, stage: _Stage, *_: Tensor) -> Tensor:
        ctx.stage = stage
        stage.forward()
        return passed.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.stage.backward()
        return gradients[0], None, *ctx.stage.gradients


def profile(loss: Loss, batch: Batch, optimize: Callable[[], None]) -> Profile:
    """Of the fastest of some rounds; the first is not counted."""
    timings = [_timed_round(loss, batch, optimize) for _ in range(_TIMED_ROUNDS)]
    return min(timings[1:], key=lambda timing: timing.seconds)


def _timed_round(loss: Loss, batch: Batch, optimize: Callable[[], None]) -> Profile:
    stages = _stages(loss.model)
    entered, left = [0.0] * len(stages), [0.0] * len(stages)
    hooks: list[Any] = []
    for index, (stage, parameters) in enumerate(zip(stages, _stage_parameters(loss.model), strict=True)):
        hooks.append(stage.register_forward_pre_hook(lambda *_, index=index: _note(entered, index)))
        hooks += [
            p.register_post_accumulate_grad_hook(lambda _, index=index: _note(left, index))  # type: ignore[no-untyped-call]
            for p in parameters
        ]
    entered.append(0.0)
    value, _ = loss(batch.tokens, batch.targets)
    _note(entered, len(stages))
    torch.autograd.backward(value)
    _note(left, 0)
    optimizing = time.monotonic()
    optimize()
    ended = time.monotonic()
    for hook in hooks:
        hook.remove()
    left.append(entered[-1])
    return Profile(
        forward=tuple(after - before for before, after in pairwise(entered)),
        backward=tuple(here - above for here, above in pairwise(left)),
        optimizer=ended - optimizing,
    )


def _note(times: list[float], index: int) -> None:
    times[index] = time.monotonic()


def _stages(model: LanguageModel) -> list[nn.Module]:
    return [model.embedding, *model.sublayers.values(), model.head]


def _stage_parameters(model: LanguageModel) -> list[list[nn.Parameter]]:
    return [list(stage.parameters()) for stage in _stages(model)]
