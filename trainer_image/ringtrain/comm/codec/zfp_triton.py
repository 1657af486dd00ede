"""ZFP on a GPU, by Triton's kernels: zfpy's bytes, from values where they lie, on the caller's stream."""

from typing import Any

import torch
from torch import Tensor

from ringtrain.comm.codec import zfp_triton_kernels
from ringtrain.comm.codec.zfp_format import BLOCK, check_rate, encoded_bytes

_BLOCKS = 32
"""Of a program. Its loops run until all of its blocks are done: so it is one warp, whose threads go together anyway."""
_WORD_BYTES = 8
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class TritonZfp:
    """`rate` bits a value. All tensors lie on one GPU, and `data` begin at a multiple of 8 bytes.

    Work goes to the calling thread's current stream of that GPU. `encode` and `encode_with_residual` then wait for it,
    to say whether all values were finite; the operations that begin with `queue_` never wait.

    May be called from several threads at once.
    """

    def __init__(self, rate: int, *, midpoint: bool) -> None:
        """`midpoint`: as for `Zfp`. Raises ValueError for a rate that ZFP cannot serve."""
        check_rate(rate)
        self.rate = rate
        self.name = f"zfp-{rate}"
        self.block = BLOCK
        self._midpoint = midpoint

    def encoded_bytes(self, numel: int) -> int:
        return encoded_bytes(numel, self.rate)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        mark = torch.empty(1, dtype=torch.int32, device=values.device)
        self.queue_encode(values, data, mark)
        return not mark.item()

    def queue_encode(self, values: Tensor, data: Tensor, mark: Tensor) -> None:
        """Writes `values` to `data`, which mean nothing if there is a mark."""
        _check(values)
        words = self._words(data, values)
        _clear(mark, values)
        _launch(zfp_triton_kernels.encode, values.numel(), values, words, mark, rate=self.rate)

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        mark = torch.empty(1, dtype=torch.int32, device=values.device)
        self.queue_encode_with_residual(values, residual, keep, data, mark)
        return not mark.item()

    def queue_encode_with_residual(
        self, values: Tensor, residual: Tensor, keep: float, data: Tensor, mark: Tensor
    ) -> None:
        """As `Codec.encode_with_residual`. If there is a mark, `data` mean nothing and the residual becomes zero."""
        _check(values)
        _check_sums(residual, values)
        words = self._words(data, values)
        _clear(mark, values)
        _launch(zfp_triton_kernels.encode_sum, values.numel(), values, residual, words, mark, rate=self.rate)
        _launch(
            zfp_triton_kernels.keep_lost, values.numel(), words, values, residual, mark,
            kept=float(keep), forgotten=float(1 - keep), rate=self.rate, midpoint=self._midpoint,
        )  # fmt: skip

    def decode(self, data: Tensor, values: Tensor) -> None:
        _check(values)
        self._decode(data, values, adds=False)

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        _check_sums(values, values)
        self._decode(data, values, adds=True)

    def _decode(self, data: Tensor, values: Tensor, *, adds: bool) -> None:
        words = self._words(data, values)
        _launch(
            zfp_triton_kernels.decode, values.numel(), words, values,
            adds=adds, rate=self.rate, midpoint=self._midpoint,
        )  # fmt: skip

    def _words(self, data: Tensor, values: Tensor) -> Tensor:
        wanted = self.encoded_bytes(values.numel())
        if data.dtype != torch.uint8 or data.shape != (wanted,) or not data.is_contiguous():
            raise ValueError(
                f"encoded values in {data.dtype} {tuple(data.shape)}: {values.numel()} values by {self.name} are a"
                f" contiguous torch.uint8 {(wanted,)}"
            )
        _check_place("encoded values", data, values)
        if data.data_ptr() % _WORD_BYTES:
            raise ValueError(
                f"encoded values at address {data.data_ptr()}: on a GPU they must begin at a multiple of {_WORD_BYTES}"
                " bytes"
            )
        return data


def _check(values: Tensor) -> None:
    if values.dtype not in _DTYPES or values.dim() != 1 or not values.is_contiguous():
        raise ValueError(
            f"values in {values.dtype} {tuple(values.shape)}: zfp takes contiguous 1-D float32, bfloat16 or float16"
        )


def _check_sums(sums: Tensor, values: Tensor) -> None:
    if sums.dtype != torch.float32 or sums.shape != values.shape:
        raise ValueError(f"sums in {sums.dtype} {tuple(sums.shape)}: they must be torch.float32 {tuple(values.shape)}")
    _check(sums)
    _check_place("sums", sums, values)


def _check_place(name: str, tensor: Tensor, values: Tensor) -> None:
    if tensor.device != values.device:
        raise ValueError(f"{name} on {tensor.device}, and values on {values.device}: zfp takes both on one device")


def _clear(mark: Tensor, values: Tensor) -> None:
    if mark.dtype != torch.int32 or mark.numel() != 1:
        raise ValueError(f"a mark in {mark.dtype} {tuple(mark.shape)}: it must be one torch.int32")
    _check_place("a mark", mark, values)
    mark.zero_()


def _launch(kernel: Any, numel: int, *tensors: Tensor, **settings: Any) -> None:
    """Works at all blocks of `numel` values."""
    programs = -(-numel // (BLOCK * _BLOCKS))
    if programs == 0:
        return
    with torch.cuda.device_of(tensors[0]):  # type: ignore[no-untyped-call]  # Triton takes the current GPU's stream.
        # Without fusion: sums must be rounded as on CPUs.
        kernel[(programs,)](*tensors, numel, **settings, blocks=_BLOCKS, num_warps=1, enable_fp_fusion=False)
