"""Checks that ranks which should hold the same state do: all that hold one part of the model, in the same round."""

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from ringtrain.comm.errors import Disagreement
from ringtrain.comm.group import Group

_DIGEST_BYTES = 32
_WORDS = {2: torch.int16, 4: torch.int32}


def state_digest(tensors: Mapping[str, Tensor]) -> str:
    """64 hexadecimal digits over names, dtypes, shapes and raw bytes; the mapping's order does not matter."""
    total = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in sorted(tensors):
        tensor = tensors[name].detach()
        total.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def agree(group: Group, round: int, digest: str) -> None:
    """Returns when all ranks call this with the same round, and those of each part of the model with the same digest;
    else raises Disagreement on all of them."""
    data = bytes.fromhex(digest)
    words = [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)]
    least, greatest = _extremes(group, torch.tensor([round, *words]))
    first, last = int(least[:, 0].min()), int(greatest[:, 0].max())
    if first == last and torch.equal(greatest, least):
        return
    what = f"are in rounds {first} to {last}" if first != last else f"hold different states of round {first}"
    raise Disagreement(f"the ranks {what}; rank {group.rank} is in round {round} with state {digest[:16]}")


def agree_on_checksums(group: Group, buckets: Sequence[Tensor]) -> None:
    """Returns when all ranks of each part of the model hold the same bits in `buckets`; else raises Disagreement on all
    of them.

    The checksum is the sum of all words, weighted by the bucket: cheap, and any single difference changes it.
    """
    words = [bucket.view(_WORDS[bucket.itemsize]).sum(dtype=torch.int64) for bucket in buckets]
    sums = torch.stack(words).cpu() if words else torch.zeros(0, dtype=torch.int64)  # Of a model that is all frozen.
    weights = 2 * torch.arange(len(sums)) + 1
    least, greatest = _extremes(group, (weights * sums).sum().reshape(1))
    for part, (first, last) in enumerate(zip(least.tolist(), greatest.tolist(), strict=True)):
        if first != last:
            raise Disagreement(
                f"the ranks of part {part} of the model hold different sums of gradients: a fault of Ringtrain's own"
            )


def _extremes(group: Group, values: Tensor) -> tuple[Tensor, Tensor]:
    """(least, greatest) of int64 [values] over the ranks of each part: two of int64 [parts, values], on all ranks."""
    both = torch.full((2, group.mesh.parts, len(values)), torch.iinfo(torch.int64).min)
    part = group.mesh.part(group.rank)
    # ~ reverses the order of integers, so that one maximum yields the minimum too.
    both[0, part], both[1, part] = values, ~values
    group.all_reduce(both, ReduceOp.MAX)
    return ~both[1], both[0]
