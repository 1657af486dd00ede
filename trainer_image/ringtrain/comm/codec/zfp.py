"""ZFP at a fixed rate (Lindstrom 2014, doi 10.1109/TVCG.2014.2346458), by the fastest means at hand.

Values are taken as an array of n/16 x 4 x 4, so that a block is 64 consecutive values. Taken as they lie, in blocks of
4, almost all of a block's bits would be its header's.
"""

import functools
import importlib.util

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.zfp_format import BLOCK


class Zfp:
    """`rate` bits a value. float32 in, float32 out: the error of a value is relative to the greatest of its block.

    On the CPU by numba if it is installed, else by zfpy on one thread; on a GPU by Triton. The bytes are the same.
    """

    def __init__(self, rate: int, *, midpoint: bool = False, threads: int = 1) -> None:
        """`midpoint`: values are decoded as the middle of those that have their bytes, and not as the one of them that
        has zeros for the bits that were cut off. At 4 bits that is about 1.3 dB closer. The bytes stay the same.

        `threads` share the work of large tensors on the CPU.

        Raises ValueError for a rate that ZFP cannot serve, for fewer than one thread, and for a midpoint without numba.
        """
        self._codec = _codec(rate, midpoint, threads)
        self._midpoint = midpoint
        self.rate = rate
        self.name = self._codec.name
        self.block = BLOCK

    def encoded_bytes(self, numel: int) -> int:
        return self._codec.encoded_bytes(numel)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        return self._for(values).encode(values, data)

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        return self._for(values).encode_with_residual(values, residual, keep, data)

    def queue_encode(self, values: Tensor, data: Tensor, mark: Tensor) -> None:
        self._for(values).queue_encode(values, data, mark)

    def queue_encode_with_residual(
        self, values: Tensor, residual: Tensor, keep: float, data: Tensor, mark: Tensor
    ) -> None:
        self._for(values).queue_encode_with_residual(values, residual, keep, data, mark)

    def decode(self, data: Tensor, values: Tensor) -> None:
        self._for(values).decode(data, values)

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        self._for(values).decode_add(data, values)

    def _for(self, values: Tensor) -> Codec:
        """Raises RuntimeError for values on a GPU without Triton."""
        return self._on_gpu if values.is_cuda else self._codec

    @functools.cached_property
    def _on_gpu(self) -> Codec:
        if importlib.util.find_spec("triton") is None:
            raise RuntimeError(
                "zfp needs triton for values on a GPU, and it is not installed: CUDA builds of torch bring it"
            )
        from ringtrain.comm.codec.zfp_triton import TritonZfp

        return TritonZfp(self.rate, midpoint=self._midpoint)


def has_numba() -> bool:
    return importlib.util.find_spec("numba") is not None


def warm(*dtypes: torch.dtype) -> None:
    """Compiles what `Zfp` runs for such values, or reads it from disk: seconds that the first encoding would take."""
    if has_numba():
        from ringtrain.comm.codec.zfp_numba import warm_kernels

        warm_kernels(dtypes)


def _codec(rate: int, midpoint: bool, threads: int) -> Codec:
    if has_numba():
        from ringtrain.comm.codec.zfp_numba import NumbaZfp

        return NumbaZfp(rate, midpoint=midpoint, threads=threads)
    if midpoint:
        raise ValueError("zfp's midpoint needs numba, which is not installed")
    from ringtrain.comm.codec.zfp_reference import ReferenceZfp

    return ReferenceZfp(rate)
