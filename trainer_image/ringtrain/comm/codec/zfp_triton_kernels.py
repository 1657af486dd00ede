"""ZFP on a GPU: from values to bytes and back, with what the ring does to them on the way.

`data` are bytes, aligned as words of 64 bits are; `numel` counts values; each program works at `blocks` blocks, one a
thread. `mark` is an int32 that becomes 1 when a value is not finite.
"""

import triton
import triton.language as tl

from ringtrain.comm.codec import zfp_format
from ringtrain.comm.codec.zfp_triton_blocks import (
    INFINITY,
    fours,
    give_fours,
    greatest,
    take,
    take_fours,
    transform,
    untransform,
)
from ringtrain.comm.codec.zfp_triton_planes import read, write

_BLOCK = tl.constexpr(zfp_format.BLOCK)


@triton.jit
def _blocks(blocks: tl.constexpr) -> tl.tensor:
    """The numbers of this program's blocks."""
    return tl.program_id(0).to(tl.int64) * blocks + tl.arange(0, blocks)


@triton.jit
def _words(data: tl.tensor) -> tl.tensor:
    return data.to(tl.pointer_type(tl.uint64), bitcast=True)


@triton.jit
def _encode(
    taken: tl.tuple, block: tl.tensor, live: tl.tensor, data: tl.tensor, mark: tl.tensor, rate: tl.constexpr
) -> None:
    magnitude = greatest(taken)
    tl.store(mark, 1, mask=tl.max(magnitude, axis=0) >= INFINITY)
    coefficients, header = transform(taken, magnitude)
    write(coefficients, header, _words(data) + block * rate, live, rate)


@triton.jit
def _decode(data: tl.tensor, block: tl.tensor, live: tl.tensor, rate: tl.constexpr, midpoint: tl.constexpr) -> tl.tuple:
    exponent, coefficients, lowest, known = read(_words(data) + block * rate, live, rate)
    return untransform(exponent, coefficients, lowest, known, midpoint)


@triton.jit
def encode(
    values: tl.tensor, data: tl.tensor, mark: tl.tensor, numel: tl.tensor, rate: tl.constexpr, blocks: tl.constexpr
) -> None:
    block = _blocks(blocks)
    _encode(take(values, block, numel), block, block * _BLOCK < numel, data, mark, rate)


@triton.jit
def encode_sum(
    values: tl.tensor,
    residual: tl.tensor,
    data: tl.tensor,
    mark: tl.tensor,
    numel: tl.tensor,
    rate: tl.constexpr,
    blocks: tl.constexpr,
) -> None:
    block = _blocks(blocks)
    own = take(values, block, numel)
    earlier = take(residual, block, numel)
    sums = []
    for place in tl.static_range(_BLOCK):
        sums = sums + [own[place] + earlier[place]]
    _encode(sums, block, block * _BLOCK < numel, data, mark, rate)


@triton.jit
def keep_lost(
    data: tl.tensor,
    values: tl.tensor,
    residual: tl.tensor,
    mark: tl.tensor,
    numel: tl.tensor,
    kept: tl.tensor,
    forgotten: tl.tensor,
    rate: tl.constexpr,
    midpoint: tl.constexpr,
    blocks: tl.constexpr,
) -> None:
    """After `encode_sum`: the residual becomes forgotten * residual + kept * lost, or zero if there is a mark."""
    block = _blocks(blocks)
    decoded = _decode(data, block, block * _BLOCK < numel, rate, midpoint)
    is_finite = tl.load(mark) == 0
    for place in tl.static_range(0, _BLOCK, 4):
        index = fours(block, place)
        own = take_fours(values, index, numel)
        earlier = take_fours(residual, index, numel)
        after = []
        for column in tl.static_range(4):
            lost = kept * (own[column] + earlier[column] - decoded[place + column])
            after = after + [tl.where(is_finite, forgotten * earlier[column] + lost, 0.0)]
        give_fours(after, residual, index, numel)


@triton.jit
def decode(
    data: tl.tensor,
    values: tl.tensor,
    numel: tl.tensor,
    adds: tl.constexpr,
    rate: tl.constexpr,
    midpoint: tl.constexpr,
    blocks: tl.constexpr,
) -> None:
    """Overwrites the values, or adds to them."""
    block = _blocks(blocks)
    decoded = _decode(data, block, block * _BLOCK < numel, rate, midpoint)
    for place in tl.static_range(0, _BLOCK, 4):
        index = fours(block, place)
        four = [decoded[place], decoded[place + 1], decoded[place + 2], decoded[place + 3]]
        if adds:
            before = take_fours(values, index, numel)
            four = [before[0] + four[0], before[1] + four[1], before[2] + four[2], before[3] + four[3]]
        give_fours(four, values, index, numel)
