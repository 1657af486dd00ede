"""ZFP by kernels of our own: zfpy's bytes, several times as fast, from values where they lie, on several threads."""

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from ringtrain.comm.codec import zfp_kernels
from ringtrain.comm.codec.codec import PromptCodec
from ringtrain.comm.codec.zfp_format import BLOCK, LOWEST_RATE, check_rate, encoded_bytes

_LEAST_BLOCKS = 256
"""A share that is smaller costs more to hand over than to do."""
_SEEN_AS = {torch.float32: torch.float32, torch.bfloat16: torch.uint16, torch.float16: torch.int16}


class NumbaZfp(PromptCodec):
    """`rate` bits a value, by compiled kernels. May be called from several threads at once."""

    def __init__(self, rate: int, *, midpoint: bool, threads: int) -> None:
        """Raises ValueError for a rate that ZFP cannot serve, or fewer than one thread."""
        check_rate(rate)
        if threads < 1:
            raise ValueError(f"{threads} threads for zfp: it needs at least 1")
        self.rate = rate
        self.name = f"zfp-{rate}"
        self.block = BLOCK
        self._midpoint = midpoint
        self._threads = threads

    def encoded_bytes(self, numel: int) -> int:
        return encoded_bytes(numel, self.rate)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        given, encoded = _seen(values), self._encoded(data, values)
        return self._share(values, lambda first, last: zfp_kernels.encode(given, encoded, self.rate, first, last))

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        given, lost, encoded = _seen(values), _seen_sums(residual, values), self._encoded(data, values)

        def part(first: int, last: int) -> bool:
            return zfp_kernels.encode_with_residual(given, lost, keep, encoded, self.rate, self._midpoint, first, last)

        finite = self._share(values, part)
        if not finite:
            residual.zero_()
        return finite

    def decode(self, data: Tensor, values: Tensor) -> None:
        self._decode(data, values, adds=False)

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        _seen_sums(values, values)
        self._decode(data, values, adds=True)

    def _decode(self, data: Tensor, values: Tensor, *, adds: bool) -> None:
        encoded, target = self._encoded(data, values), _seen(values)

        def part(first: int, last: int) -> None:
            zfp_kernels.decode(encoded, target, adds, self.rate, self._midpoint, first, last)

        self._share(values, part)

    def _encoded(self, data: Tensor, values: Tensor) -> NDArray[numpy.uint8]:
        wanted = self.encoded_bytes(values.numel())
        if data.dtype != torch.uint8 or data.shape != (wanted,) or not data.is_contiguous():
            raise ValueError(
                f"encoded values in {data.dtype} {tuple(data.shape)}: {values.numel()} values by {self.name} are a"
                f" contiguous torch.uint8 {(wanted,)}"
            )
        return data.numpy()

    def _share(self, values: Tensor, part: Callable[[int, int], bool | None]) -> bool:
        """Does `part` over all blocks. Whether no part said False."""
        blocks = -(-values.numel() // BLOCK)
        shares = min(self._threads, blocks // _LEAST_BLOCKS)
        if shares <= 1:
            return part(0, blocks) is not False
        bounds = [blocks * share // shares for share in range(shares + 1)]
        others = [_pool(self._threads).submit(part, *bounds[share : share + 2]) for share in range(1, shares)]
        results = [part(*bounds[:2]), *(other.result() for other in others)]
        return False not in results


def _seen(values: Tensor) -> NDArray[Any]:
    """The values' own memory, as the kernels take it."""
    if values.dtype not in _SEEN_AS or values.dim() != 1 or not values.is_contiguous():
        raise ValueError(
            f"values in {values.dtype} {tuple(values.shape)}: zfp takes contiguous 1-D float32, bfloat16 or float16"
        )
    return values.detach().view(_SEEN_AS[values.dtype]).numpy()


def _seen_sums(sums: Tensor, values: Tensor) -> NDArray[numpy.float32]:
    """As `_seen`, of what the kernels add to."""
    if sums.dtype != torch.float32 or sums.shape != values.shape:
        raise ValueError(f"sums in {sums.dtype} {tuple(sums.shape)}: they must be torch.float32 {tuple(values.shape)}")
    return _seen(sums)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One for all codecs: the caller does one share of its work itself."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="zfp")


os.register_at_fork(after_in_child=_pool.cache_clear)  # Its threads are not in the child.


def warm_kernels(dtypes: Iterable[torch.dtype]) -> None:
    """Compiles the kernels for such values, or reads them from disk."""
    codec = NumbaZfp(LOWEST_RATE, midpoint=False, threads=1)
    data = torch.zeros(codec.encoded_bytes(1), dtype=torch.uint8)
    for dtype in dtypes:
        values = torch.zeros(1, dtype=dtype)
        codec.encode(values, data)
        codec.encode_with_residual(values, torch.zeros(1), 1.0, data)
        codec.decode(data, values)
