"""Clipping by the norm of all gradients of a model, wherever its parts are."""

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from ringtrain.comm.polled import gather


@torch.no_grad()
def clip(
    gradients: Mapping[str, Tensor],
    counted_elsewhere: frozenset[str],
    maximum: float,
    peers: dist.ProcessGroup | None,
    device: torch.device,
) -> float:
    """Shrinks `gradients`, in place, so that their norm over all of `peers` is at most `maximum`. A peer may have none;
    `device` is that of all.

    Those named in `counted_elsewhere` are held by another peer, too, which counts them. Returns the norm as it was;
    when that is not finite, gradients stay as they are. Raises PeerLost, or what polling raises.
    """
    own = [gradient for name, gradient in gradients.items() if name not in counted_elsewhere]
    square = torch.zeros(1, dtype=torch.float64, device=device)
    if own:
        square += torch.stack(torch._foreach_norm(own)).double().square().sum()
    if peers is not None:
        # Added in the order of ranks: all of them clip by the same bits.
        square = torch.cat(gather(square, peers)).sum()
    norm = float(square.sqrt())
    if gradients and maximum < norm < float("inf"):
        torch._foreach_mul_(list(gradients.values()), maximum / norm)
    return norm
