"""The same values on all ranks, to begin with."""

from collections.abc import Iterable

import torch
from torch import Tensor

from ringtrain.comm.group import Group


@torch.no_grad()
def replicate(group: Group, tensors: Iterable[Tensor]) -> None:
    """Overwrites `tensors`, in place, by those of rank 0; all ranks give as many, of the same shapes and dtypes.

    Raises PeerLost, or what polling raises.
    """
    for tensor in tensors:
        if tensor.numel() == 0:
            continue
        # As bytes: whatever the dtype, and the same bits.
        copied = tensor.detach().contiguous()
        group.broadcast(copied.reshape(-1).view(torch.uint8), src=0)
        if copied.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(copied)
