"""Which tensors a model consists of: so that another model's checkpoint is refused by the first that differs."""

from collections.abc import Mapping
from typing import TypeAlias

import torch

from ringtrain.checkpoint.tree import Piece, Unread

Outline: TypeAlias = dict[str, str]
"""Dtype and shape by name, as text: "float32 (3, 4)"."""

_ABSENT = "absent"


def outline(tensors: Mapping[str, object]) -> Outline:
    """What else than tensors `tensors` holds is passed over."""
    return {name: _described(leaf) for name, leaf in tensors.items() if isinstance(leaf, torch.Tensor | Piece | Unread)}


def first_difference(theirs: Outline, ours: Outline) -> tuple[str, str, str] | None:
    """(name, what it is in `theirs`, what it is in `ours`), in the order of `ours`; None when there is none."""
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        pair = theirs.get(name, _ABSENT), ours.get(name, _ABSENT)
        if pair[0] != pair[1]:
            return (name, *pair)
    return None


def _described(leaf: torch.Tensor | Piece | Unread) -> str:
    if isinstance(leaf, Piece):
        leaf = Unread((leaf.total, *leaf.tensor.shape[1:]), leaf.tensor.dtype)
    return f"{str(leaf.dtype).removeprefix('torch.')} {tuple(leaf.shape)}"
