"""ZFP by its own library: what the fast codec must equal, and what serves where numba is not installed."""

import numpy
import torch
import zfpy
from torch import Tensor

from ringtrain.comm.codec.codec import UnfusedCodec, all_finite, store
from ringtrain.comm.codec.zfp_format import BLOCK, ROW, check_rate, encoded_bytes

_FLOAT32 = zfpy.dtype_to_ztype(numpy.dtype("float32"))


class ReferenceZfp(UnfusedCodec):
    """`rate` bits a value, by zfpy."""

    def __init__(self, rate: int) -> None:
        """Raises ValueError for a rate that ZFP cannot serve."""
        check_rate(rate)
        self.rate = rate
        self.name = f"zfp-{rate}"
        self.block = BLOCK

    def encoded_bytes(self, numel: int) -> int:
        return encoded_bytes(numel, self.rate)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        if values.numel() == 0:  # zfpy crashes.
            return True
        if not all_finite(values):  # zfpy would make finite numbers of them.
            return False
        encoded = zfpy.compress_numpy(_rows(values).numpy(), rate=self.rate, write_header=False)
        data.copy_(torch.frombuffer(bytearray(encoded), dtype=torch.uint8))
        return True

    def decode(self, data: Tensor, values: Tensor) -> None:
        numel = values.numel()
        if numel == 0:
            return
        rows = -(-numel // ROW)
        if values.dtype == torch.float32 and numel % ROW == 0:
            self._decode(data, values.view(rows, 4, 4))
            return
        decoded = torch.empty(rows, 4, 4)
        self._decode(data, decoded)
        store(decoded.view(-1)[:numel], values)

    def _decode(self, data: Tensor, rows: Tensor) -> None:
        zfpy._decompress(data.numpy(), _FLOAT32, tuple(rows.shape), out=rows.numpy(), rate=self.rate)


def _rows(values: Tensor) -> Tensor:
    """float32 (n/16, 4, 4), the last row filled up with zeros."""
    values = values.float()
    missing = -values.numel() % ROW
    if missing:
        values = torch.cat([values, values.new_zeros(missing)])
    return values.view(-1, 4, 4)
