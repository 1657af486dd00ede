"""Nested state as tensors by name plus JSON, so that loading never unpickles."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ringtrain.checkpoint.structure import below

Tree: TypeAlias = Any
"""None, bool, int, float, str, a tensor, a Piece, or a list, tuple or dict (keys str or int) of these, nested at will.
Where not all of a checkpoint was read, Unread too."""

_SCALARS = (type(None), bool, int, float, str)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of a tensor: those from `offset` along its first dimension."""

    tensor: torch.Tensor
    """The rows, perhaps none; at least one dimension."""
    offset: int
    total: int
    """Rows of the whole tensor."""

    def __post_init__(self) -> None:
        if not (self.tensor.dim() and 0 <= self.offset <= self.total - len(self.tensor)):
            raise ValueError(
                f"a tensor of shape {tuple(self.tensor.shape)} cannot be rows from {self.offset} of {self.total} rows"
            )


@dataclass(frozen=True, slots=True)
class Unread:
    """A whole tensor that the checkpoint holds, and that was not asked for."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def rows(leaf: torch.Tensor | Piece) -> torch.Tensor:
    """What of a tensor is here: all of it, or the rows of a Piece."""
    return leaf.tensor if isinstance(leaf, Piece) else leaf


def flatten(tree: Tree) -> tuple[dict[str, torch.Tensor | Piece], str]:
    """The tensors of `tree` by path ("optimizer/state/0/exp_avg"), and JSON that holds everything else.

    Raises TypeError, naming the path, for a value that is none of `Tree`'s, or for two tensors of one path.
    """
    tensors: dict[str, torch.Tensor | Piece] = {}
    return tensors, json.dumps(_encode(tree, "", tensors), separators=(",", ":"))


def unflatten(tensors: Mapping[str, torch.Tensor | Piece | Unread], structure: str) -> Tree:
    """What `flatten` took. Raises KeyError when a tensor is missing, ValueError when `structure` is not its JSON."""
    return _decode(json.loads(structure), tensors)


def _encode(value: Tree, path: str, tensors: dict[str, torch.Tensor | Piece]) -> Any:
    if isinstance(value, torch.Tensor | Piece):
        if path in tensors:
            raise TypeError(f"state has two tensors at {path!r}: use keys that differ as text")
        tensors[path] = value
        return ["tensor", path]
    # By exact type: a bool is an int, and a NumPy float is a float whose JSON would lose its type.
    if type(value) in _SCALARS:
        return value
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_encode(item, below(path, i), tensors) for i, item in enumerate(value))]
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(
                    f"state has a key of type {type(key).__name__} at {path or 'its top'}: expected str or int"
                )
        return ["dict", *([key, _encode(item, below(path, key), tensors)] for key, item in value.items())]
    raise TypeError(f"state has a {type(value).__name__} at {path or 'its top'}: only tensors and plain data are saved")


def _decode(value: Any, tensors: Mapping[str, torch.Tensor | Piece | Unread]) -> Tree:
    if not isinstance(value, list):
        return value
    kind, *items = value
    if kind == "tensor":
        return tensors[items[0]]
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in items}
    decoded = [_decode(item, tensors) for item in items]
    if kind == "list":
        return decoded
    if kind == "tuple":
        return tuple(decoded)
    raise ValueError(f"unknown kind {kind!r} in a checkpoint's structure")
