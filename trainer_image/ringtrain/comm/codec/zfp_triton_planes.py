"""The bits of blocks' coefficients, plane by plane, as in `zfp_planes`, on a GPU: each thread has one block.

Everything is a vector with an element for each block of the program, and loops run until all of its blocks are done.
Coefficients are 64 such vectors of uint32, by frequency; `words` are pointers to the first uint64 of each block. No
shift is by a word's size or more, which processors disagree on.
"""

import triton
import triton.language as tl

from ringtrain.comm.codec import zfp_format

_BLOCK = tl.constexpr(zfp_format.BLOCK)
_HEADER_BITS = tl.constexpr(9)
_ALL = tl.constexpr(2**64 - 1)


@triton.jit
def _lowest(count: tl.tensor) -> tl.tensor:
    """`count` ones, 0 to 64."""
    return tl.where(count > 0, tl.full(count.shape, _ALL, tl.uint64) >> ((64 - count) & 63), 0)


@triton.jit
def _place(one: tl.tensor) -> tl.tensor:
    """Where the only one of a word is; without any, -127. float32 has its exponent of 8 bits above 23 others."""
    return (one.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127


@triton.jit
def _put(
    words: tl.tensor,
    at: tl.tensor,
    fill: tl.tensor,
    held: tl.tensor,
    bits: tl.tensor,
    count: tl.tensor,
    rate: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Appends `count` bits, at most 64, to the `fill` bits that are held of the word at `at`."""
    held |= bits << fill
    fill += count
    full = fill >= 64
    tl.store(words + at, held, mask=full & (at < rate))
    rest = (bits >> 1) >> ((63 - (fill - count)) & 63)
    return tl.where(full, at + 1, at), tl.where(full, fill - 64, fill), tl.where(full, rest, held)


@triton.jit
def _plane(coefficients: tl.tuple, bit: tl.tensor) -> tl.tensor:
    """That bit of every coefficient, the first one's lowest."""
    low = tl.zeros_like(coefficients[0])
    high = tl.zeros_like(coefficients[0])
    for place in tl.static_range(32):  # The compiler makes one shift over two registers of each line.
        low = (low << 1) | ((coefficients[31 - place] << (31 - bit)) >> 31)
        high = (high << 1) | ((coefficients[63 - place] << (31 - bit)) >> 31)
    return (high.to(tl.uint64) << 32) | low.to(tl.uint64)


@triton.jit
def _top(coefficients: tl.tuple) -> tl.tensor:
    """Above the highest plane with a one in any block, or one higher where float32 rounds up."""
    any_bits = coefficients[0]
    for place in tl.static_range(1, _BLOCK):
        any_bits |= coefficients[place]
    exponent = tl.max(any_bits, axis=0).to(tl.float32).to(tl.int32, bitcast=True) >> 23
    return tl.minimum(tl.maximum(exponent - 126, 0), 32)


@triton.jit
def write(coefficients: tl.tuple, header: tl.tensor, words: tl.tensor, live: tl.tensor, rate: tl.constexpr) -> None:
    """Fills `rate` words of each `live` block with its header, uint64, and what has room of its coefficients."""
    bit = _top(coefficients)
    at = tl.where(live, 0, rate)
    fill = at * 0 + _HEADER_BITS + 32 - bit  # A plane without a one is a test without one.
    held = header
    significant = at * 0
    below = _lowest(significant)
    while (bit > 0) & (tl.min(at, axis=0) < rate):
        bit -= 1
        plane = _plane(coefficients, bit)
        rest = plane ^ (plane & below)
        test = (rest != 0).to(tl.uint64)
        bits = (plane & below) | tl.where(significant < 64, test << (significant & 63), 0)
        at, fill, held = _put(words, at, fill, held, bits, tl.minimum(significant + 1, 64), rate)
        rest = tl.where(at < rate, rest, 0)
        while tl.max((rest != 0).to(tl.int32), axis=0) > 0:
            # The zeros before a one, the one, and the next test; but the last coefficient's one needs neither.
            found = rest != 0
            others = rest & (rest - 1)
            one = rest ^ others
            rest = others
            place = _place(one)
            zeros = tl.where(found, place - significant, 0)
            told = found & (place < 63)
            test = (rest != 0).to(tl.uint64)
            bits = tl.where(told, ((test << 1) | 1) << zeros, 0)
            at, fill, held = _put(words, at, fill, held, bits, zeros + tl.where(told, 2, 0), rate)
            significant = tl.where(found, place + 1, significant)
            below = tl.where(found, one | (one - 1), below)
            rest = tl.where(at < rate, rest, 0)
    for word in tl.static_range(rate):
        tl.store(words + word, tl.where(at == word, held, 0), mask=at <= word)


@triton.jit
def _peek(words: tl.tensor, position: tl.tensor, wanted: tl.tensor, rate: tl.constexpr) -> tl.tensor:
    """64 bits from `position` on, where `wanted`; zeros after the block's end."""
    at = position >> 6
    passed = position & 63
    first = tl.load(words + at, mask=wanted, other=0)
    second = tl.load(words + at + 1, mask=wanted & (at + 1 < rate), other=0)
    return (first >> passed) | ((second << 1) << (63 - passed))


@triton.jit
def _read_plane(
    words: tl.tensor, position: tl.tensor, significant: tl.tensor, rate: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """A plane of each block, zeros after its end. Then the position after it, how many coefficients are significant,
    and how many are known of the plane."""
    end = 64 * rate
    wanted = position < end
    plain = tl.minimum(significant, end - position)
    plane = _peek(words, position, wanted, rate) & _lowest(plain)
    position += plain
    known = plain
    wanted = (position < end) & (significant < 64)
    while tl.max(wanted.to(tl.int32), axis=0) > 0:
        window = _peek(words, position, wanted, rate)
        tested = wanted & ((window & 1) != 0)
        after = window >> 1
        one = after ^ (after & (after - 1))
        # Zeros before the one; but the last coefficient's one is not written, and that at the end was cut off.
        room = tl.minimum(63 - significant, end - position - 1)
        zeros = tl.where(one != 0, _place(one), 63)
        told = zeros < room
        zeros = tl.where(tested, tl.minimum(zeros, room), 0)
        plane |= tl.where(tested, tl.full(zeros.shape, 1, tl.uint64) << ((significant + zeros) & 63), 0)
        position += tl.where(wanted, 1, 0) + zeros + tl.where(tested & told, 1, 0)
        significant += tl.where(tested, zeros + 1, 0)
        known = tl.where(tested, significant, tl.where(wanted, 64, known))
        wanted = tested & (position < end) & (significant < 64)
    return plane, position, significant, known


@triton.jit
def read(words: tl.tensor, live: tl.tensor, rate: tl.constexpr) -> tuple[tl.tensor, tl.tuple, tl.tensor, tl.tensor]:
    """Reads what `write` wrote: the header's exponents, int32, and the coefficients, zeros for bits that had no room.

    Then the lowest plane that was read of each block, and how many coefficients are known of it; of a block without
    values, 0 and 64.
    """
    header = tl.load(words, mask=live, other=0)
    end = 64 * rate
    position = tl.where((header & 1) != 0, _HEADER_BITS, end)
    lowest = position * 0
    known = lowest + 64
    significant = lowest
    nothing = lowest.to(tl.uint32)
    coefficients = [nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing]
    coefficients = coefficients + coefficients + coefficients + coefficients
    coefficients = coefficients + coefficients
    bit = tl.max(tl.where(position < end, 32, 0), axis=0)
    while (bit > 0) & (tl.min(position, axis=0) < end):
        bit -= 1
        wanted = position < end
        plane, position, significant, plane_known = _read_plane(words, position, significant, rate)
        lowest = tl.where(wanted, bit, lowest)
        known = tl.where(wanted, plane_known, known)
        low = plane.to(tl.uint32)
        high = (plane >> 32).to(tl.uint32)
        deeper = []
        for place in tl.static_range(32):
            deeper = deeper + [(coefficients[place] << 1) | ((low << (31 - place)) >> 31)]
        for place in tl.static_range(32):
            deeper = deeper + [(coefficients[32 + place] << 1) | ((high << (31 - place)) >> 31)]
        coefficients = deeper
    whole = []
    for place in tl.static_range(_BLOCK):
        whole = whole + [coefficients[place] << bit]  # Without any block to read all are zero, and so is `bit`.
    return (header.to(tl.int32) & 511) >> 1, whole, lowest, known
