"""Nested state as tensors by name plus JSON, so that loading never unpickles."""

import json
from typing import Any, TypeAlias

import torch

Tree: TypeAlias = Any
"""None, bool, int, float, str, a tensor, or a list, tuple or dict (keys str or int) of these, nested at will."""

_SCALARS = (type(None), bool, int, float, str)


def flatten(tree: Tree) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors of `tree` by path ("optimizer/state/0/exp_avg"), and JSON that holds everything else.

    Raises TypeError, naming the path, for a value that is none of `Tree`'s, or for two tensors of one path.
    """
    tensors: dict[str, torch.Tensor] = {}
    return tensors, json.dumps(_encode(tree, "", tensors), separators=(",", ":"))


def unflatten(tensors: dict[str, torch.Tensor], structure: str) -> Tree:
    """What `flatten` took. Raises KeyError when a tensor is missing, ValueError when `structure` is not its JSON."""
    return _decode(json.loads(structure), tensors)


def _encode(value: Tree, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if path in tensors:
            raise TypeError(f"state has two tensors at {path!r}: use keys that differ as text")
        tensors[path] = value
        return ["tensor", path]
    # By exact type: a bool is an int, and a NumPy float is a float whose JSON would lose its type.
    if type(value) in _SCALARS:
        return value
    prefix = f"{path}/" if path else ""
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_encode(item, f"{prefix}{i}", tensors) for i, item in enumerate(value))]
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(
                    f"state has a key of type {type(key).__name__} at {path or 'its top'}: expected str or int"
                )
        return ["dict", *([key, _encode(item, f"{prefix}{key}", tensors)] for key, item in value.items())]
    raise TypeError(f"state has a {type(value).__name__} at {path or 'its top'}: only tensors and plain data are saved")


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Tree:
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
