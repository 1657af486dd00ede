import math
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.structure import merge
from ringtrain.checkpoint.tree import flatten, unflatten
from trainer.checkpoint.checkpoints import same
from trainer.checkpoint.trees import split, states


@given(states, st.integers(1, 4), st.randoms(use_true_random=False))
def test_parts_merge_into_the_whole(tree: dict[str, Any], groups: int, random: Random) -> None:
    tensors, structure = flatten(tree)
    merged = merge(flatten(part)[1] for part in split(tree, groups, random))
    assert same(unflatten(tensors, merged), unflatten(tensors, structure))


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}, "a/b"),
        ({"a": [1, 2]}, {"a": (1, 2)}, "a"),
        ({"a": [1]}, {"a": [1, 2]}, "a"),
        ({"a": {}}, {"a": None}, "a"),
        ({"a": {"b": torch.ones(1)}}, {"a": {"b": 1}}, "a/b"),
        ({"a": 1}, [], "its top"),
    ],
)
def test_parts_that_differ_do_not_merge(one: Any, other: Any, path: str) -> None:
    with pytest.raises(ValueError, match=f"differ at {path}$"):
        merge([flatten(one)[1], flatten(other)[1]])


def test_numbers_that_are_not_finite_are_the_same() -> None:
    structures = [flatten({"loss": math.nan, part: -math.inf})[1] for part in "ab"]
    assert list(unflatten({}, merge(structures))) == ["loss", "a", "b"]
