"""Random trees, and how groups of ranks hold them."""

import math
from itertools import pairwise
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from ringtrain.checkpoint.tree import Piece

DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float8_e4m3fn,
    torch.complex64,
)
NAMES = ("a", "b", "0.weight", "first", "ü")

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(10**6), inner),
    max_leaves=20,
)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Of any bits: NaN, too, and negative zeros."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    size = math.prod(shape) * dtype.itemsize
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    data = torch.randint(0, 2 if dtype == torch.bool else 256, (size,), dtype=torch.uint8, generator=generator)
    return data.view(dtype).reshape(shape)


leaves: st.SearchStrategy[Any] = tensors() | scalars | st.lists(tensors(), max_size=2) | st.just({})
states = st.dictionaries(
    st.sampled_from(NAMES),
    st.recursive(leaves, lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=4), max_leaves=12),
    max_size=4,
)


def split(tree: dict[str, Any], groups: int, random: Random) -> list[dict[str, Any]]:
    """Parts that make up `tree`: each value lies in one or more of them, or its rows are shared out."""
    found = _split(tree, groups, random)
    return [found.get(group, {}) for group in range(groups)]


def _split(value: Any, groups: int, random: Random) -> dict[int, Any]:
    holders = sorted(random.sample(range(groups), random.randint(1, groups)))
    if isinstance(value, dict) and value:
        parts: dict[int, Any] = {}
        for key, item in value.items():
            for group, part in _split(item, groups, random).items():
                parts.setdefault(group, {})[key] = part
        return parts
    if isinstance(value, torch.Tensor) and value.dim() and random.random() < 0.5:
        total = len(value)
        cuts = [0, *sorted(random.randint(0, total) for _ in holders[1:]), total]
        random.shuffle(holders)
        spans = zip(holders, pairwise(cuts), strict=True)
        return {group: Piece(value[a:b], a, total) for group, (a, b) in spans}
    return dict.fromkeys(holders, value)
