"""A parameter that the first and the last stage of a pipeline both hold: its gradient is the sum of both."""

import torch
import torch.distributed as dist
from torch import Tensor

from ringtrain.comm.group import Group


def sum_with_other_end(gradient: Tensor, group: Group) -> None:
    """In place, with the same bits at both ends: addition of two commutes. Both must call it.

    Raises PeerLost, or what polling raises.
    """
    pipe = group.pipe()
    size = group.mesh.pipeline
    _, place = group.mesh.place(group.rank)
    peer = size - 1 - place
    other = torch.empty_like(gradient)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, gradient.contiguous(), group=pipe, group_peer=peer),
            dist.P2POp(dist.irecv, other, group=pipe, group_peer=peer),
        ]
    )
    for work in works:
        work.wait()
    gradient.add_(other)
