"""The state of any torch.optim optimizer by the names of parameters, not by their places, which mean nothing where the
model is cut elsewhere: pure."""

from collections.abc import Mapping, Sequence
from typing import Any

_PLACES = ("params", "param_names")


def by_name(state: Mapping[str, Any], names: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What `Optimizer.state_dict` gave, by name; `names` are those of each group's parameters.

    Groups are a mapping by number, so that parts of a model's optimizer join to that of the whole.
    """
    named: dict[str, Any] = {}
    for group, own in zip(state["param_groups"], names, strict=True):
        named |= {name: state["state"][place] for place, name in zip(group["params"], own, strict=True)
                  if place in state["state"]}  # fmt: skip
    groups = {
        number: {key: value for key, value in group.items() if key not in _PLACES}
        for number, group in enumerate(state["param_groups"])
    }
    return {"state": named, "groups": groups}


def by_place(saved: Mapping[str, Any], own: Mapping[str, Any], names: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What `Optimizer.load_state_dict` takes: of what `by_name` gave, the part of an optimizer whose state_dict is
    `own`. Raises ValueError when it has other groups."""
    if len(saved["groups"]) != len(own["param_groups"]):
        raise ValueError(
            f"it has {len(saved['groups'])} parameter groups, but the optimizer has {len(own['param_groups'])}"
        )
    states: dict[int, Any] = {}
    groups = []
    for number, (group, named) in enumerate(zip(own["param_groups"], names, strict=True)):
        places = {key: group[key] for key in _PLACES if key in group}
        groups.append({**saved["groups"][number], **places})
        states |= {
            place: saved["state"][name]
            for place, name in zip(group["params"], named, strict=True)
            if name in saved["state"]
        }
    return {"state": states, "param_groups": groups}
