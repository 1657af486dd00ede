"""Every 16-bit float, and the float32 around them."""

import numpy
import pytest
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from ringtrain.comm.codec.zfp_values import Values, get, put

SEEN_AS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}


def _widen(values: Values, wide: NDArray[numpy.float32]) -> None:
    for index in range(len(values)):
        put(wide, 0, index, get(values, 0, index))


def _narrow(wide: NDArray[numpy.float32], values: Values) -> None:
    for index in range(len(values)):
        put(values, 0, index, get(wide, 0, index))


_widened, _narrowed = njit(_widen), njit(_narrow)


def all_of(dtype: torch.dtype) -> Tensor:
    return torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)


@pytest.mark.parametrize("dtype", SEEN_AS)
def test_every_value_is_widened(dtype: torch.dtype) -> None:
    values = all_of(dtype)
    wide = torch.zeros(2**16)
    _widened(values.view(SEEN_AS[dtype]).numpy(), wide.numpy())
    finite = torch.isfinite(values)
    assert torch.equal(torch.isfinite(wide), finite)
    assert torch.equal(wide[finite].view(torch.int32), values.float()[finite].view(torch.int32))


@pytest.mark.parametrize("dtype", SEEN_AS)
def test_rounds_as_torch_does(dtype: torch.dtype) -> None:
    """Every value, the middle to the next one, and what is just off the middle."""
    values = all_of(dtype)
    values = values[torch.isfinite(values)].double()
    ordered = values.sort().values
    middles = (ordered[1:] + ordered[:-1]) / 2
    wide = torch.cat([ordered, middles]).float()
    wide = torch.cat([wide, wide.nextafter(torch.tensor(9e9)), wide.nextafter(torch.tensor(-9e9))])
    narrow = torch.zeros(len(wide), dtype=dtype)
    _narrowed(wide.numpy(), narrow.view(SEEN_AS[dtype]).numpy())
    limit = torch.finfo(dtype).max if dtype == torch.float16 else float("inf")
    assert torch.equal(narrow.view(torch.int16), wide.clamp(-limit, limit).to(dtype).view(torch.int16))
