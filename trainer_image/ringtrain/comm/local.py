"""What of a parameter lies in this rank's memory, whether FSDP2 has sharded it or not."""

import torch
from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether it is a DTensor."""
    # Not by type: importing it takes as long as torch itself, in every rank that starts.
    return hasattr(tensor, "to_local")


@torch.no_grad()
def local(tensor: Tensor) -> Tensor:
    """The rows of `tensor` that this rank holds: some of a sharded one's, all of any other's. Shares its memory."""
    held: Tensor = tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return held


def in_shape_of(tensor: Tensor, flat: Tensor) -> Tensor:
    """`flat` as a tensor of that shape, and of that order in memory, as gradients have it: fused optimizers go through
    both side by side, whatever their strides say."""
    return flat.as_strided(tensor.shape, torch.empty_like(tensor, device="meta").stride())


@torch.no_grad()
def as_gradient(held: Tensor, parameter: nn.Parameter) -> Tensor:
    """What `parameter.grad` can be: `held` has the shape of `local(parameter)`, and its memory is the gradient's."""
    if not is_sharded(parameter):
        return held
    from torch.distributed.tensor import DTensor

    assert isinstance(parameter, DTensor)
    return DTensor.from_local(
        held,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
