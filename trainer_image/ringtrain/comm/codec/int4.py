"""Four bits a value and one scale a block: absmax quantisation, as in ZeRO++ (arXiv 2306.10209)."""

import functools
import math
from typing import Literal

import torch
from torch import Tensor

from ringtrain.comm.codec.codec import UnfusedCodec, all_finite, store

_LEVELS = 7
_SCALE = torch.bfloat16  # It has float32's range, so that no block is too large or too small for its scale.


class Int4(UnfusedCodec):
    """15 levels between minus and plus the greatest magnitude of each block of `block` values.

    Encoded: all blocks' scales, bfloat16, then all blocks' values, two a byte. With `rotate`, each block is first
    multiplied by a Hadamard matrix with fixed random signs, which spreads outliers over the block (SDP4Bit,
    arXiv 2410.15526): additions in a fixed order, so that all machines decode the same bits.
    """

    def __init__(self, block: Literal[32, 128], rotate: bool) -> None:
        self.name = f"int4-{block}" + "-rotated" * rotate
        self.block = block
        self._rotate = rotate

    def encoded_bytes(self, numel: int) -> int:
        return -(-numel // self.block) * (_SCALE.itemsize + self.block // 2)

    def encode(self, values: Tensor, data: Tensor) -> bool:
        if values.numel() == 0:
            return True
        blocks = self._blocks(values)
        if self._rotate:
            blocks = _hadamard(blocks * _signs(self.block, blocks.device))
        if not all_finite(blocks):
            return False
        scales, codes = self._split(data)
        scales.copy_(blocks.abs().amax(1) / _LEVELS)
        divisors = scales.float().unsqueeze(1)
        quotients = blocks / torch.where(divisors == 0, 1.0, divisors)
        levels = quotients.round_().clamp_(-_LEVELS, _LEVELS).add_(8).to(torch.uint8)
        torch.add(levels[:, ::2], levels[:, 1::2], alpha=16, out=codes)
        return True

    def decode(self, data: Tensor, values: Tensor) -> None:
        if values.numel() == 0:
            return
        scales, codes = self._split(data)
        blocks = torch.stack([codes & 15, codes >> 4], dim=2).view(len(codes), self.block).float()
        blocks.sub_(8).mul_(scales.float().unsqueeze(1))
        if self._rotate:
            blocks = _hadamard(blocks).mul_(_signs(self.block, blocks.device))
        store(blocks.view(-1)[: values.numel()], values)

    def _blocks(self, values: Tensor) -> Tensor:
        """float32, (blocks, block), the last one filled up with zeros."""
        values = values.float()
        missing = -values.numel() % self.block
        if missing:
            values = torch.cat([values, values.new_zeros(missing)])
        return values.view(-1, self.block)

    def _split(self, data: Tensor) -> tuple[Tensor, Tensor]:
        blocks = data.numel() // (_SCALE.itemsize + self.block // 2)
        boundary = blocks * _SCALE.itemsize
        return data[:boundary].view(_SCALE), data[boundary:].view(blocks, self.block // 2)


@functools.cache
def _signs(block: int, device: torch.device) -> Tensor:
    """The same in every process and release: from a linear congruential generator, not from torch's."""
    state, signs = 1, []
    for _ in range(block):
        state = (state * 1103515245 + 12345) % 2**31
        signs.append(1.0 if state >> 16 & 1 else -1.0)
    return torch.tensor(signs, device=device)


def _hadamard(blocks: Tensor) -> Tensor:
    """Each row times the orthonormal Hadamard matrix of its length, a power of two; it is its own inverse."""
    rows, length = blocks.shape
    blocks = blocks / math.sqrt(length)
    half = 1
    while half < length:
        pairs = blocks.view(rows, length // (2 * half), 2, half)
        blocks = torch.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], dim=2)
        half *= 2
    return blocks.reshape(rows, length)
