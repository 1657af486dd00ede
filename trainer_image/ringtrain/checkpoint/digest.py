"""Digests of state: whether ranks hold the same, and what a run ended with."""

import hashlib
import json
from collections.abc import Mapping

import torch

from ringtrain.checkpoint.tree import Tree, flatten, rows
from ringtrain.comm.group import Group
from ringtrain.comm.verify import state_digest


def tree_digest(tree: Tree) -> str:
    """Of all tensors in `tree`, and of everything else in it; of a Piece, its rows."""
    tensors, structure = flatten(tree)
    own = {name: rows(tensor) for name, tensor in tensors.items()}
    return state_digest(own | {"": torch.frombuffer(bytearray(structure.encode()), dtype=torch.uint8)})


def model_digest(group: Group, own: Mapping[str, str]) -> str:
    """Of a whole model, however it is cut; `own` are the digests of the tensors that this rank holds of it, by name.

    All ranks call it together. Raises PeerLost, or what polling raises.
    """
    first = group.rank < group.mesh.parts
    parts = group.all_gather_json(dict(own) if first else {})
    whole = sorted({entry for part in parts for entry in part.items()})
    return hashlib.blake2b(json.dumps(whole).encode(), digest_size=32).hexdigest()
