import math
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given

from ringtrain.checkpoint.tree import Piece, Unread, flatten, rows, unflatten
from trainer.checkpoint.checkpoints import same
from trainer.checkpoint.trees import plain


@given(plain)
def test_plain_data_reads_back_with_its_types(tree: Any) -> None:
    tensors, structure = flatten(tree)
    assert not tensors
    restored = unflatten(tensors, structure)
    assert same(restored, tree)
    # In the same order, too.
    assert flatten(restored)[1] == structure


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
        ({"a": Unread((1,), torch.float32)}, "Unread at a"),
        ({"a": {1: torch.ones(1), "1": torch.ones(1)}}, "two tensors at 'a/1'"),
    ],
)
def test_what_cannot_be_saved_is_named(tree: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        flatten(tree)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="pickle"):
        unflatten({}, '["pickle","x"]')


@pytest.mark.parametrize(("shape", "offset", "total"), [((), 0, 1), ((2,), -1, 3), ((2,), 2, 3), ((0,), 4, 3)])
def test_rows_that_cannot_be(shape: tuple[int, ...], offset: int, total: int) -> None:
    with pytest.raises(ValueError, match="cannot be rows"):
        Piece(torch.zeros(shape), offset, total)


def test_a_piece_is_saved_as_its_rows() -> None:
    piece = Piece(torch.ones(2, 3), 1, 3)
    tensors, structure = flatten({"a": piece})
    assert tensors == {"a": piece}
    assert rows(tensors["a"]) is piece.tensor
    assert structure == flatten({"a": piece.tensor})[1]
