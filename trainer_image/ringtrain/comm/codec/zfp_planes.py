"""The bits of a block's coefficients, plane by plane: how ZFP writes them, and reads them again.

A plane is one bit of each of the 64 coefficients, as a word. Planes are written from the highest down until the block
is full. In each, the coefficients that had a one in some higher plane come first, as they are. The others are written
in groups: a test bit, one if any one is left; then all bits up to that one. A test bit of zero ends the plane. The
last coefficient's one needs no bit, for its test says it.

No loop here runs over single bits: the tests are put between a plane's bits, and found again, by masks.
"""

import numpy
from numba import njit
from numpy.typing import NDArray

from ringtrain.comm.codec.zfp_vectors import plane
from ringtrain.comm.codec.zfp_words import (
    gather,
    load_bits,
    odd_below,
    ones,
    scatter,
    store_word,
    zeros_above,
    zeros_below,
)

HEADER_BITS = 9
"""A flag, one unless the whole block is zero, and 8 bits of exponent."""
SPARE_WORDS = 4
"""How far after the last block `write` may overwrite words, and `read` look at them."""

_Word = numpy.uint64
_ZERO, _ONE, _ALL = _Word(0), _Word(1), _Word(2**64 - 1)
_LOW_HALF = _Word(2**32 - 1)
_EVEN = _Word(0x5555555555555555)
_WINDOW = 56
"""Bits of groups that are looked at together: `load_bits` gives one more, which says what is due after them."""

Words = NDArray[numpy.uint8]


@njit
def _lowest(count: int) -> _Word:
    """`count` ones, at most 63."""
    return (_ONE << count) - _ONE


@njit
def _put(data: Words, at: int, fill: int, held: _Word, bits: _Word, count: int) -> tuple[int, int, _Word]:
    """Appends `count` bits, at most 64, to the `fill` bits that are held of the word at `at`."""
    held |= bits << fill
    store_word(data, at, held)  # Each time: a branch that cannot be foreseen would cost more.
    rest = (bits >> _ONE) >> (63 - fill)
    fill += count
    if fill >= 64:
        return at + 1, fill - 64, rest
    return at, fill, held


@njit
def write(
    coefficients: NDArray[numpy.uint32], any_bits: numpy.uint32, header: _Word, data: Words, at: int, end: int
) -> None:
    """Fills words `at` to `end`, exclusive, with the header and what has room of the coefficients.

    `any_bits` are the bits that any coefficient has.
    """
    significant = 0
    bit = 64 - zeros_above(_Word(any_bits))
    fill, held = HEADER_BITS + 32 - bit, header  # A plane without a one is a test without one.
    while bit > 0 and at < end:
        bit -= 1
        bits = plane(coefficients, bit)
        if significant == 64:
            at, fill, held = _put(data, at, fill, held, bits, 64)
            continue
        left = bits >> significant
        test = _ONE if left else _ZERO
        bits = bits & _lowest(significant) | test << significant
        at, fill, held = _put(data, at, fill, held, bits, significant + 1)
        if not left:
            continue
        length = 64 - zeros_above(left)
        significant += length
        while True:
            half = left & _LOW_HALF
            # Each bit gets a second place after it, for the next test, and only those after a one are kept.
            spread = scatter(half, _EVEN)
            tests = spread << _ONE
            bits = gather(spread | tests, _EVEN | tests)
            if length <= 32:
                break
            at, fill, held = _put(data, at, fill, held, bits, 32 + ones(half))
            left >>= _Word(32)
            length -= 32
        count = length + ones(half)
        if significant == 64:
            at, fill, held = _put(data, at, fill, held, bits & _lowest(count - 2), count - 2)
        else:
            at, fill, held = _put(data, at, fill, held, bits & _lowest(count - 1), count)
    while at < end:
        store_word(data, at, held)
        held = _ZERO
        at += 1


@njit
def _load_64(data: Words, position: int) -> _Word:
    """64 bits from `position` on."""
    return load_bits(data, position) & _LOW_HALF | load_bits(data, position + 32) << _Word(32)


@njit(forceinline=True)
def _read_groups(data: Words, position: int, end: int, significant: int, bits: _Word) -> tuple[_Word, int, int, int]:
    """As `_read_plane`, from the groups on: `bits` are those of the coefficients that were significant before."""
    due = _ZERO  # All ones while a coefficient's one is due, which a test has promised.
    while True:
        room = min(end - position, _WINDOW)
        window = load_bits(data, position)
        # The ones are in turn a test's and a coefficient's. A zero where a test is due ends the plane.
        dues = odd_below(window) ^ due
        end_of_plane = zeros_below(~(window | dues))
        length = min(end_of_plane, room)
        coefficients = dues & _lowest(length)
        count = ones(coefficients)
        if significant + count >= 63:  # The last one is next: it is one if a one is due, or else if tested one.
            missing = 63 - significant
            length = zeros_below(scatter(_ONE << (missing - 1), coefficients)) + 1 if missing else 0
            bits |= gather(window, coefficients & _lowest(length)) << significant
            significant = 63
            position += length
            if dues >> length & _ONE:
                return bits | _ONE << _Word(63), position, 64, 64
            if length < room:
                last = window >> length & _ONE
                return bits | last << _Word(63), position + 1, 63 + numpy.int64(last), 64
            if position == end:
                return bits, position, 63, 63
            due = _ZERO
            continue
        bits |= gather(window, coefficients) << significant
        significant += count
        position += length
        if end_of_plane < room:
            return bits, position + 1, significant, 64
        is_due = dues >> length & _ONE
        if position == end:  # A one that is due and was cut off is the next coefficient's.
            known = significant + numpy.int64(is_due)
            return bits | is_due << significant, position, known, known
        due = _ZERO - is_due


@njit(forceinline=True)
def _read_plane(data: Words, position: int, end: int, significant: int) -> tuple[_Word, int, int, int]:
    """A plane, and the position after it; how many coefficients are significant then, and how many are known of it."""
    bits = _load_64(data, position)
    room = min(end - position, 64)
    if significant >= room:
        return bits & _ALL >> (64 - room), position + room, significant, room
    return _read_groups(data, position + significant, end, significant, bits & _lowest(significant))


@njit(forceinline=True)
def read(data: Words, at: int, end: int, planes: NDArray[numpy.uint64]) -> tuple[int, int, int]:
    """Reads what `write` wrote to the words `at` to `end`, exclusive: plane n's bits become `planes[n]`.

    Returns the lowest plane that was read, the one above the highest with a one, and how many coefficients are known of
    the lowest: of the others there was no room. A block of zeros has no planes.
    """
    position = 64 * at + HEADER_BITS
    if not load_bits(data, 64 * at) & _ONE:
        return 0, 0, 64
    empty = min(zeros_below(load_bits(data, position)), 32)
    position += empty
    bit = top = 32 - empty
    end *= 64
    significant, known = 0, 64
    while bit > 0 and position < end:
        bit -= 1
        planes[_Word(bit)], position, significant, known = _read_plane(data, position, end, significant)
    return bit, top, known
