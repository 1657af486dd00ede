import math
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.tree import flatten, unflatten

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(10**6), inner),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(trees)
def test_plain_data_reads_back_with_its_types(tree: Any) -> None:
    tensors, structure = flatten(tree)
    assert not tensors
    assert same(unflatten(tensors, structure), tree)


def test_a_stepped_optimizer_reads_back() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimizer.step()
    state = {"model": layer.state_dict(), "optimizer": optimizer.state_dict(), "residuals": {}, "scaler": None}
    tensors, structure = flatten(state)
    assert "optimizer/state/0/exp_avg" in tensors
    restored = unflatten(tensors, structure)
    # state_dict() of a module is an OrderedDict: it comes back as a dict.
    assert same(restored, state | {"model": dict(layer.state_dict())})
    torch.optim.AdamW(torch.nn.Linear(3, 2).parameters()).load_state_dict(restored["optimizer"])


@pytest.mark.parametrize("tree", [torch.ones(2), [torch.ones(2), 1], {"a": (torch.zeros(0),)}])
def test_tensors_anywhere(tree: Any) -> None:
    assert same(unflatten(*flatten(tree)), tree)


def test_numbers_that_are_not_finite() -> None:
    restored = unflatten(*flatten([math.inf, -math.inf, math.nan]))
    assert restored[:2] == [math.inf, -math.inf]
    assert math.isnan(restored[2])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": object()}}, "object at a/b"),
        ({"a": numpy.float64(1)}, "float64 at a"),
        ({(1, 2): 3}, "tuple at its top"),
        ({"a": {1: torch.ones(1), "1": torch.ones(1)}}, "two tensors at 'a/1'"),
    ],
)
def test_what_cannot_be_saved_is_named(tree: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        flatten(tree)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="pickle"):
        unflatten({}, '["pickle","x"]')
