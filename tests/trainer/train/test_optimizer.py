from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ringtrain.contract.trainer_config import ModelConfig, OptimizerConfig
from ringtrain.models import build_model
from ringtrain.train.optimizer import AdamW

CONFIG = OptimizerConfig(weight_decay=0.3)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2, bias=False))


def fill_gradients(model: nn.Module, round: int) -> None:
    torch.manual_seed(round)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def test_is_the_reference_adamw_with_decay_on_matrices_only() -> None:
    model, reference = net(), net()
    groups = [
        {"params": [p for p in reference.parameters() if p.dim() == 2], "weight_decay": 0.3},
        {"params": [p for p in reference.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    ours, theirs = AdamW(model, CONFIG), torch.optim.AdamW(groups, betas=(CONFIG.beta1, CONFIG.beta2))
    for round in range(1, 6):
        rate = 0.1 / round
        for group in theirs.param_groups:
            group["lr"] = rate
        fill_gradients(model, round)
        fill_gradients(reference, round)
        ours.step(rate)
        theirs.step()
        for one, other in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(one, other)


def test_goes_on_from_its_state_bit_for_bit() -> None:
    unbroken, resumed = net(), net()
    optimizer = AdamW(unbroken, CONFIG)
    fill_gradients(unbroken, 1)
    optimizer.step(0.1)
    resumed.load_state_dict(unbroken.state_dict())
    other = AdamW(resumed, CONFIG)
    other.load_state_dict(optimizer.state_dict())
    for model, stepping in ((unbroken, optimizer), (resumed, other)):
        fill_gradients(model, 2)
        stepping.step(0.1)
    assert all(map(torch.equal, unbroken.parameters(), resumed.parameters()))


class Largest(TorchDispatchMode):
    """The most values that one operation made anew."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, list | tuple):
            self.values = max(self.values, sum(tensor.numel() for tensor in made))
        return made


def test_an_update_makes_little_besides_the_state() -> None:
    model = nn.ModuleList([nn.Linear(1024, 1024) for _ in range(12)])
    fill_gradients(model, 1)
    optimizer = AdamW(model, CONFIG)
    with Largest() as largest:
        optimizer.step(0.1)
    assert 0 < largest.values < 5 * 2**20


def test_a_state_without_a_parameter_is_refused() -> None:
    state = AdamW(net(), CONFIG).state_dict()
    del state["first"]["2.weight"]
    with pytest.raises(KeyError, match=r"2\.weight"):
        AdamW(net(), CONFIG).load_state_dict(state)


def test_every_parameter_of_a_model_has_moments() -> None:
    model = build_model(ModelConfig(size="nano"), 257, seed=0)
    state = AdamW(model, CONFIG).state_dict()
    assert state["first"].keys() == state["second"].keys() == dict(model.named_parameters()).keys()


def test_gradients_are_cleared_to_none() -> None:
    model = net()
    fill_gradients(model, 1)
    AdamW(model, CONFIG).clear_gradients()
    assert {parameter.grad for parameter in model.parameters()} == {None}
