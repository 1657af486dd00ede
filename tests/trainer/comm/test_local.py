"""Gradients lie in buckets as autograd would have laid them out."""

import pytest
import torch
from torch import Tensor, nn

from ringtrain.comm.local import in_shape_of


@pytest.mark.parametrize(
    "parameter",
    [
        torch.randn(6, 4),
        torch.randn(6, 4).t(),
        torch.randn(3, 4, 5).permute(1, 2, 0),
        torch.randn(8, 4, 3, 3).to(memory_format=torch.channels_last),
        torch.randn(8, 4, 3, 3, 3).to(memory_format=torch.channels_last_3d),
        torch.randn(6, 8)[:, ::2],
        torch.randn(()),
        torch.randn(0, 5),
    ],
    ids=lambda parameter: f"{tuple(parameter.shape)} {parameter.stride()}",
)
def test_a_gradient_has_the_order_in_memory_that_autograd_gives_it(parameter: Tensor) -> None:
    plain = nn.Parameter(parameter)
    (plain * plain).sum().backward()  # type: ignore[no-untyped-call]
    assert plain.grad is not None
    bucket = torch.zeros(parameter.numel() + 7)
    view = in_shape_of(parameter, bucket[3 : 3 + parameter.numel()])
    assert (view.shape, view.stride()) == (plain.grad.shape, plain.grad.stride())
    # Each value has a place of its own, and no other place is touched.
    view.fill_(1)
    assert bucket.tolist() == [0] * 3 + [1] * parameter.numel() + [0] * 4
