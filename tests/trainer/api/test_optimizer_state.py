from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ringtrain.api.optimizer_state import by_name, by_place


def optimizer(parameters: list[nn.Parameter], cut: int) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": parameters[:cut], "lr": 0.1}, {"params": parameters[cut:]}]
    return torch.optim.AdamW(groups, lr=0.2)


def stepped(parameters: list[nn.Parameter], cut: int) -> torch.optim.Optimizer:
    made = optimizer(parameters, cut)
    for number, parameter in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, number + 1.0) if number != 1 else None
    made.step()
    return made


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.full((n + 1,), 1.0)) for n in range(4)]


NAMES = [["a", "b"], ["c", "d"]]


def test_moments_follow_the_names_to_other_places() -> None:
    saved = by_name(stepped(parameters(), 2).state_dict(), NAMES)
    # A parameter that never had a gradient has no state.
    assert saved["state"].keys() == {"a", "c", "d"}
    assert {number: group["lr"] for number, group in saved["groups"].items()} == {0: 0.1, 1: 0.2}
    assert not any("params" in group for group in saved["groups"].values())

    part = list(reversed(parameters()))[:2]
    other = optimizer(part, 0)
    other.load_state_dict(by_place(saved, other.state_dict(), [[], ["d", "c"]]))
    for parameter, name in zip(part, ["d", "c"], strict=True):
        moment: Tensor = other.state[parameter]["exp_avg"]
        assert torch.equal(moment, saved["state"][name]["exp_avg"])
    assert [group["lr"] for group in other.param_groups] == [0.1, 0.2]


def test_there_and_back_changes_nothing() -> None:
    state = stepped(parameters(), 2).state_dict()
    assert by_place(by_name(state, NAMES), state, NAMES) == state


def test_names_given_to_torch_are_places_too() -> None:
    named = list(zip("ab", parameters(), strict=False))
    made = torch.optim.SGD(named, lr=0.1)
    saved = by_name(made.state_dict(), [["a", "b"]])
    assert "param_names" not in saved["groups"][0]
    assert by_place(saved, made.state_dict(), [["a", "b"]]) == made.state_dict()


def test_other_groups_are_refused() -> None:
    saved = by_name(stepped(parameters(), 2).state_dict(), NAMES)
    with pytest.raises(ValueError, match="it has 2 parameter groups, but the optimizer has 1"):
        by_place(saved, torch.optim.SGD(parameters()).state_dict(), [["a", "b", "c", "d"]])
