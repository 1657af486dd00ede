"""Checks that all ranks hold the same state of the same round."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from ringtrain.comm.errors import Disagreement
from ringtrain.comm.group import Group

_DIGEST_BYTES = 32


def state_digest(tensors: Mapping[str, Tensor]) -> str:
    """64 hexadecimal digits over names, dtypes, shapes and raw bytes; the mapping's order does not matter."""
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def agree(group: Group, round: int, digest: str) -> None:
    """Returns when all ranks call this with the same round and digest, else raises Disagreement on all of them."""
    data = bytes.fromhex(digest)
    words = [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)]
    values = torch.tensor([round, *words])
    # ~ reverses the order of integers, so that one maximum yields the minimum too.
    both = torch.cat([values, ~values])
    group.all_reduce(both, ReduceOp.MAX)
    greatest, least = both[: len(values)], ~both[len(values) :]
    if torch.equal(greatest, least):
        return
    first, last = int(least[0]), int(greatest[0])
    what = f"are in rounds {first} to {last}" if first != last else f"hold different states of round {first}"
    raise Disagreement(f"the ranks {what}; rank {group.rank} is in round {round} with state {digest[:16]}")
