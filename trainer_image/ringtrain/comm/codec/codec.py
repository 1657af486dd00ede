"""What every codec does."""

from typing import Protocol

import torch
from torch import Tensor

_FLOAT16_MAXIMUM = 65504.0


class Codec(Protocol):
    """Writes flat tensors of values as bytes, and reads them again, on the tensors' device.

    `values` are 1-D, contiguous, float32, bfloat16 or float16, of any length; `data` are 1-D, contiguous, uint8, of
    exactly `encoded_bytes(values.numel())`. A codec has no state: the same values give the same bytes on every machine.
    """

    @property
    def name(self) -> str:
        """As users call it, with what matters of its settings: `zfp-4`."""
        ...

    @property
    def block(self) -> int:
        """Values that are encoded together. Slices that start at its multiples can be encoded by themselves."""
        ...

    def encoded_bytes(self, numel: int) -> int:
        """The exact size of `numel` encoded values."""
        ...

    def encode(self, values: Tensor, data: Tensor) -> bool:
        """Writes `values` to `data`. False when some value is NaN or infinite: then `data` means nothing."""
        ...

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        """Writes `values + residual` to `data`, and what was lost of them to `residual`: error feedback.

        `residual` is float32, like `values` in length; it becomes (1 - keep) * residual + keep * lost, so that 1 is
        plain error feedback, and less a moving average (LoCo, arXiv 2407.04480). False as for `encode`; then the
        residual becomes zero, for the gradients that it belongs to are of no use.
        """
        ...

    def queue_encode(self, values: Tensor, data: Tensor, mark: Tensor) -> None:
        """As `encode`, but never waits for a GPU: what `encode` would say is left in `mark`, an int32 tensor of one
        element on the values' device, which becomes 1 when some value is NaN or infinite, else 0."""
        ...

    def queue_encode_with_residual(
        self, values: Tensor, residual: Tensor, keep: float, data: Tensor, mark: Tensor
    ) -> None:
        """As `encode_with_residual`, with a mark as of `queue_encode`."""
        ...

    def decode(self, data: Tensor, values: Tensor) -> None:
        """Overwrites `values`. What passes the range of float16 becomes its greatest finite value."""
        ...

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        """Adds to `values`, which are float32."""
        ...


class PromptCodec:
    """The operations that queue, by those that answer."""

    def encode(self, values: Tensor, data: Tensor) -> bool:
        raise NotImplementedError

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        raise NotImplementedError

    def queue_encode(self, values: Tensor, data: Tensor, mark: Tensor) -> None:
        mark.fill_(not self.encode(values, data))

    def queue_encode_with_residual(
        self, values: Tensor, residual: Tensor, keep: float, data: Tensor, mark: Tensor
    ) -> None:
        mark.fill_(not self.encode_with_residual(values, residual, keep, data))


class UnfusedCodec(PromptCodec):
    """The compound operations, by the simple ones."""

    def decode(self, data: Tensor, values: Tensor) -> None:
        raise NotImplementedError

    def encode_with_residual(self, values: Tensor, residual: Tensor, keep: float, data: Tensor) -> bool:
        wanted = values.float() + residual
        if not self.encode(wanted, data):
            residual.zero_()
            return False
        decoded = torch.empty_like(wanted)
        self.decode(data, decoded)
        residual.mul_(1 - keep).add_(wanted.sub_(decoded), alpha=keep)
        return True

    def decode_add(self, data: Tensor, values: Tensor) -> None:
        decoded = torch.empty_like(values)
        self.decode(data, decoded)
        values.add_(decoded)


def all_finite(values: Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    if values.numel() == 0:
        return True
    return bool(torch.isfinite(torch.stack(torch.aminmax(values))).all())  # NaN is the extreme of what it is among.


def store(decoded: Tensor, values: Tensor) -> None:
    """Casts float32 `decoded` into `values`. A finite value that a lossy codec carried past the range of float16
    becomes the greatest there is; NaN and infinities arrive as they are."""
    if values.dtype == torch.float16:
        bounded = decoded.clamp(-_FLOAT16_MAXIMUM, _FLOAT16_MAXIMUM)
        decoded = torch.where(decoded.isinf(), decoded, bounded)
    values.copy_(decoded)
