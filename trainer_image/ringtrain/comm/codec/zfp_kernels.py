"""ZFP over a range of blocks, compiled: from values to bytes and back, with what the ring does to them on the way.

Values are arrays as in `zfp_values`. Every kernel takes all values and all bytes, and works at the blocks `first` to
`last`, exclusive: so threads can share the work. The GIL is released.
"""

import numpy
from numba import njit
from numpy.typing import NDArray

from ringtrain.comm.codec.zfp_compiled import compiled
from ringtrain.comm.codec.zfp_format import BLOCK, HIGHEST_RATE, ROW
from ringtrain.comm.codec.zfp_planes import HEADER_BITS, SPARE_WORDS, Words, read, write
from ringtrain.comm.codec.zfp_values import INFINITY, Values, get, magnitude, put
from ringtrain.comm.codec.zfp_vectors import SPARE_PLANES, prefetch, transform, untransform
from ringtrain.comm.codec.zfp_words import float_of, load_word, store_word

Floats = NDArray[numpy.float32]
_Bits = numpy.uint32
_Word = numpy.uint64
_Long = numpy.int64

_STRIP = 32
"""Blocks that are worked at together. Their bytes are copied to or from a place that has words to spare."""
_AHEAD = 4 * BLOCK
"""How many values before it is written memory is fetched: a block is done in about the time that this takes."""
_HEADER = _Word(2**HEADER_BITS - 1)


@njit
def _fill_up(block: Floats, count: int) -> None:
    """Zeros to the end of the row; then rows as zfp takes them for those that are missing."""
    rows = (count + ROW - 1) // ROW
    for index in range(count, BLOCK):
        row, column = index // ROW, index % ROW
        if row < rows:
            block[index] = 0
        elif rows == 2 and row == 2:
            block[index] = block[ROW + column]
        else:
            block[index] = block[column]


@njit
def _aligned(size: int) -> Words:
    """Memory whose vectors cross no cache lines."""
    memory = numpy.empty(size + 63, numpy.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


@njit
def _count(values: Values, start: int) -> int:
    """How many of a block's values there are."""
    return min(len(values) - start, BLOCK)


@njit
def _take(values: Values, start: int, blocks: Floats, place: int) -> numpy.uint32:
    """Copies a block, and fills it up. Returns the greatest magnitude."""
    greatest = _Bits(0)
    count = _count(values, start)
    if count == BLOCK:  # The compiler makes better vectors of a loop whose length it knows.
        for index in range(BLOCK):
            value = get(values, start, index)
            put(blocks, place, index, value)
            greatest = max(greatest, magnitude(value))
        return greatest
    for index in range(count):
        value = get(values, start, index)
        put(blocks, place, index, value)
        greatest = max(greatest, magnitude(value))
    _fill_up(blocks[place : place + BLOCK], count)
    return greatest


@njit
def _take_sum(values: Values, residual: Floats, start: int, blocks: Floats, place: int) -> numpy.uint32:
    """As `_take`, of the values and what earlier ones lost."""
    greatest = _Bits(0)
    count = _count(values, start)
    for index in range(count):
        value = get(values, start, index) + get(residual, start, index)
        put(blocks, place, index, value)
        greatest = max(greatest, magnitude(value))
    if count < BLOCK:
        _fill_up(blocks[place : place + BLOCK], count)
    return greatest


@njit
def _encode_block(
    blocks: Floats, slot: int, greatest: numpy.uint32, coefficients: NDArray[_Bits], strip: Words, rate: int
) -> None:
    """Writes a block of finite values, and spare words after it."""
    at, end = slot * rate, (slot + 1) * rate
    if greatest == 0:
        for word in range(at, end):
            store_word(strip, word, _Word(0))
        return
    exponent = numpy.int64(greatest >> 23)
    tiny = exponent < 29  # 2 to the 30 minus the block's exponent passes the range of float32.
    scale = float_of(_Bits(0 if tiny else (283 - exponent) << 23))
    any_bits = transform(blocks, slot * BLOCK, scale, tiny, coefficients)
    write(coefficients, any_bits, _Word(2 * (exponent + 1) + 1), strip, at, end)


@njit
def _copy(source: Words, at: int, target: Words, target_at: int, words: int) -> None:
    for word in range(words):
        store_word(target, target_at + word, load_word(source, at + word))


@njit
def _middle(cut: int) -> numpy.int32:
    """The middle of what the lowest `cut` bits can add, in negabinary.

    That is from -2/3 to 1/3 of 2**cut, or from -1/3 to 2/3 if `cut` is odd.
    """
    sixth = _Long((1 << cut) // 6)
    return numpy.int32(sixth if cut % 2 else -sixth)


@njit
def _planes() -> NDArray[_Word]:
    """For one block."""
    return _aligned(8 * (32 + SPARE_PLANES)).view(numpy.uint64)


@njit
def _decode_block(
    strip: Words, slot: int, rate: int, planes: NDArray[_Word], midpoint: bool, adds: bool, values: Floats, start: int
) -> None:
    """Makes 64 values of a block, from `values[start]` on, or adds them to those."""
    at = slot * rate
    exponent = numpy.int64((load_word(strip, at) & _HEADER) >> 1)
    scale = float_of(_Bits((exponent - 30) << 23 if exponent > 30 else 1 << exponent >> 8))  # Or subnormal, or zero.
    lowest, top, known = read(strip, at, at + rate, planes)
    middle, rest_middle = (_middle(lowest), _middle(lowest + 1)) if midpoint else (numpy.int32(0), numpy.int32(0))
    untransform(planes, lowest, top, numpy.int32(known), middle, rest_middle, scale, adds, values, start)


@compiled
def encode(values: Values, data: Words, rate: int, first: int, last: int) -> bool:
    """False when a value is not finite."""
    blocks = _aligned(4 * BLOCK * _STRIP).view(numpy.float32)
    coefficients = _aligned(4 * BLOCK).view(numpy.uint32)
    strip = _aligned(8 * (_STRIP * HIGHEST_RATE + SPARE_WORDS))
    for number in range(first, last, _STRIP):
        count = min(last - number, _STRIP)
        for slot in range(count):
            greatest = _take(values, (number + slot) * BLOCK, blocks, slot * BLOCK)
            if greatest >= INFINITY:
                return False
            _encode_block(blocks, slot, greatest, coefficients, strip, rate)
        _copy(strip, 0, data, number * rate, count * rate)
    return True


@compiled
def encode_with_residual(
    values: Values, residual: Floats, keep: float, data: Words, rate: int, midpoint: bool, first: int, last: int
) -> bool:
    """False when a sum is not finite: then some residuals are of this call, and others not."""
    blocks = _aligned(4 * BLOCK * _STRIP).view(numpy.float32)
    coefficients = _aligned(4 * BLOCK).view(numpy.uint32)
    strip = _aligned(8 * (_STRIP * HIGHEST_RATE + SPARE_WORDS))
    planes = _planes()
    decoded = _aligned(4 * BLOCK).view(numpy.float32)
    kept, forgotten = numpy.float32(keep), numpy.float32(1 - keep)
    for number in range(first, last, _STRIP):
        count = min(last - number, _STRIP)
        for slot in range(count):
            greatest = _take_sum(values, residual, (number + slot) * BLOCK, blocks, slot * BLOCK)
            if greatest >= INFINITY:
                return False
            _encode_block(blocks, slot, greatest, coefficients, strip, rate)
        _copy(strip, 0, data, number * rate, count * rate)
        for slot in range(count):
            _decode_block(strip, slot, rate, planes, midpoint, False, decoded, 0)
            start = (number + slot) * BLOCK
            for index in range(_count(values, start)):
                lost = kept * (get(blocks, slot * BLOCK, index) - decoded[index])
                put(residual, start, index, forgotten * get(residual, start, index) + lost)
    return True


@compiled
def decode(data: Words, values: Values, adds: bool, rate: int, midpoint: bool, first: int, last: int) -> None:
    """Overwrites the values, or adds to them, which must be float32 then."""
    strip = _aligned(8 * (_STRIP * HIGHEST_RATE + SPARE_WORDS))
    planes = _planes()
    decoded = _aligned(4 * BLOCK).view(numpy.float32)
    for number in range(first, last, _STRIP):
        blocks = min(last - number, _STRIP)
        _copy(data, number * rate, strip, 0, blocks * rate)
        for slot in range(blocks):
            start = (number + slot) * BLOCK
            count = _count(values, start)
            if count == BLOCK and values.itemsize == decoded.itemsize:
                prefetch(values, start + _AHEAD)
                _decode_block(strip, slot, rate, planes, midpoint, adds, values, start)
                continue
            _decode_block(strip, slot, rate, planes, midpoint, False, decoded, 0)
            for index in range(count):
                if adds:
                    put(values, start, index, get(values, start, index) + decoded[index])
                else:
                    put(values, start, index, decoded[index])
