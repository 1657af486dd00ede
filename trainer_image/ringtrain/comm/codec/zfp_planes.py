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
from ringtrain.comm.codec.zfp_words import gather, load_word, ones, scatter, store_word, zeros_above, zeros_below

HEADER_BITS = 9
"""A flag, one unless the whole block is zero, and 8 bits of exponent."""
SPARE_WORDS = 4
"""How far after the last block `write` may overwrite words, and `read` look at them."""

_Word = numpy.uint64
_ZERO, _ONE, _ALL = _Word(0), _Word(1), _Word(2**64 - 1)
_LOW_HALF = _Word(2**32 - 1)
_EVEN = _Word(0x5555555555555555)

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
def _peek(data: Words, position: int) -> _Word:
    """64 bits from `position` on."""
    at, passed = position >> 6, position & 63
    return load_word(data, at) >> passed | (load_word(data, at + 1) << _ONE) << (63 - passed)


@njit
def _parities(word: _Word) -> _Word:
    """Whether the ones of the word up to each bit, itself included, are odd in number."""
    word ^= word << _Word(1)
    word ^= word << _Word(2)
    word ^= word << _Word(4)
    word ^= word << _Word(8)
    word ^= word << _Word(16)
    return word ^ word << _Word(32)


@njit(forceinline=True)
def _read_groups(data: Words, position: int, end: int, significant: int) -> tuple[_Word, int, int, int]:
    """Reads the groups of a plane, which may be cut off at `end`: their bits, and the position after them.

    Then how many coefficients are significant, and how many are known.
    """
    bits = _ZERO
    while True:
        room = min(end - position, 64)
        if room == 0:
            return bits, position, significant, significant
        window = _peek(data, position)
        if significant == 63:
            last = window & _ONE
            return bits | last << _Word(63), position + 1, significant + numpy.int64(last), 64
        # The ones are in turn a test and a coefficient's. A zero where a test is due ends the plane.
        odd = _parities(window)
        length = zeros_below(~(window | odd))
        ended = length < room
        length = min(length, room)
        coefficients = ~(window & odd) & _ALL >> (64 - length) if length else _ZERO
        count = ones(coefficients)
        if count >= 63 - significant:  # The last one is next: it is one if a one is due, or else if tested one.
            length = zeros_below(scatter(_ONE << (62 - significant), coefficients)) + 1
            bits |= gather(window & ~odd, coefficients & _ALL >> (64 - length)) << significant
            due = odd >> (length - 1) & _ONE
            significant = 63
            position += length
            if length < room:
                last = due | window >> length & _ONE
                return bits | last << _Word(63), position + 1 - numpy.int64(due), 63 + numpy.int64(last), 64
            if due:
                return bits | _ONE << _Word(63), position, 64, 64
            continue
        if not ended and end - position > 64:  # Go on after the last whole group.
            length = 64 - zeros_above(window & ~odd)
            coefficients &= _ALL >> (64 - length)
            count = ones(coefficients)
        bits |= gather(window, coefficients) << significant
        significant += count
        position += length
        if ended:
            return bits, position + 1, significant, 64
        if position == end and odd >> (length - 1) & _ONE:  # Cut off before the one that a test has promised.
            return bits | _ONE << significant, position, significant + 1, significant + 1


@njit(forceinline=True)
def _read_plane(data: Words, position: int, end: int, significant: int) -> tuple[_Word, int, int, int]:
    """A plane, and the position after it; how many coefficients are significant then, and how many are known of it."""
    plain = min(significant, end - position)
    bits = _peek(data, position)
    if plain == min(end - position, 64):
        return bits & _ALL >> (64 - plain), position + plain, significant, plain
    bits &= _lowest(plain)
    groups, position, significant, known = _read_groups(data, position + plain, end, significant)
    return bits | groups, position, significant, known


@njit(forceinline=True)
def _open(data: Words, start: int, end: int) -> tuple[int, int]:
    """The position of the first plane with a one, and its number and one."""
    if not load_word(data, start >> 6) & _ONE:
        return end, 0
    empty = min(zeros_below(_peek(data, start + HEADER_BITS)), 32)
    return start + HEADER_BITS + empty, 32 - empty


@njit(forceinline=True)
def _note(found: NDArray[numpy.int64], slot: int, lowest: int, top: int, known: int) -> None:
    found[_Word(3 * slot)], found[_Word(3 * slot + 1)], found[_Word(3 * slot + 2)] = lowest, top, known


@njit
def read(data: Words, count: int, rate: int, planes: NDArray[numpy.uint64], found: NDArray[numpy.int64]) -> None:
    """Reads what `write` wrote to `count` blocks of `rate` words.

    The bits of block n go to 32 planes from `32 * n` on. `found[3 * n:]` says the lowest plane that was read, the one
    above the highest with a one, and how many coefficients are known of the lowest: of the others there was no room.
    """
    size = 64 * rate
    # Where a plane begins depends on all before it, and the processor waits. Meanwhile it can work at another block.
    slot, other = 0, 1
    end = size
    position, top = _open(data, 0, end)
    bit, significant, known = top, 0, 64
    other_end = end + size
    other_position, other_top = _open(data, end, other_end) if count > 1 else (other_end, 0)
    other_bit, other_significant, other_known = other_top, 0, 64
    following = 2
    while slot < count or other < count:
        if bit > 0 and position < end:
            bit -= 1
            planes[_Word(32 * slot + bit)], position, significant, known = _read_plane(data, position, end, significant)
        elif slot < count:
            _note(found, slot, bit, top, known)
            slot = following
            following += 1
            end = (slot + 1) * size
            position, top = _open(data, end - size, end) if slot < count else (end, 0)
            bit, significant, known = top, 0, 64
        if other_bit > 0 and other_position < other_end:
            other_bit -= 1
            planes[_Word(32 * other + other_bit)], other_position, other_significant, other_known = _read_plane(
                data, other_position, other_end, other_significant
            )
        elif other < count:
            _note(found, other, other_bit, other_top, other_known)
            other = following
            following += 1
            other_end = (other + 1) * size
            other_position, other_top = _open(data, other_end - size, other_end) if other < count else (other_end, 0)
            other_bit, other_significant, other_known = other_top, 0, 64
