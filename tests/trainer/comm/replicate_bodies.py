"""What ranks do in the distributed tests of replicate."""

from typing import Any

import torch

from ringtrain.comm.replicate import replicate
from trainer.comm.ranks import Link


def replicated(link: Link, rank: int, size: int) -> list[Any]:
    """Tensors of rank 0's values, of many kinds."""
    group = link.form(rank, size)
    own = rank + 1
    tensors = [
        torch.full((2, 3), own / 3),
        torch.full((3, 2), own, dtype=torch.float16).t(),
        torch.tensor(own),
        torch.tensor([own == 1, True]),
        torch.empty(0),
        torch.full((4,), own, dtype=torch.bfloat16)[::2],
    ]
    replicate(group, tensors)
    group.destroy()
    return [(str(tensor.dtype), tensor.tolist()) for tensor in tensors]
