"""Codecs that keep each value by itself: as float32, or rounded to bfloat16."""

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import UnfusedCodec, all_finite, store


class Plain(UnfusedCodec):
    """Each value as `dtype`, rounded to nearest even. NaN and infinities arrive as they are."""

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self.name = name
        self.block = 1
        self._dtype = dtype

    def encoded_bytes(self, numel: int) -> int:
        return numel * self._dtype.itemsize

    def encode(self, values: Tensor, data: Tensor) -> bool:
        data.view(self._dtype).copy_(values)
        return True

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        super().encode_with_residual(values, residual, keep, data)
        if not all_finite(residual):
            residual.zero_()
        return True

    def decode(self, data: Tensor, values: Tensor) -> None:
        store(data.view(self._dtype).float(), values)

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        values.add_(data.view(self._dtype))


def none() -> Plain:
    """float32: nothing is lost."""
    return Plain("none", torch.float32)


def bf16() -> Plain:
    return Plain("bf16", torch.bfloat16)
