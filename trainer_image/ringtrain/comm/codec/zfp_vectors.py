"""What numba cannot say of itself: a block's 64 values as one vector.

The compiler cuts the vectors to what the processor has: AVX-512, AVX2, SSE, NEON. Arrays are 1-D and contiguous, and
nothing is checked.
"""

import functools
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ringtrain.comm.codec.zfp_format import BLOCK, SEQUENCY
from ringtrain.comm.codec.zfp_words import Generated, Values, load, pointer, store

_BYTE, _INT, _LONG, _FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_BYTES = ir.VectorType(_BYTE, BLOCK)
_LANES = ir.VectorType(_INT, BLOCK)
_FLOATS = ir.VectorType(_FLOAT, BLOCK)
_MASK = ir.VectorType(ir.IntType(1), BLOCK)
_NEGABINARY = 0xAAAAAAAA
_LINE = 64
"""Bytes that memory moves together."""
SPARE_PLANES = 8
"""How far after the lowest plane that was read `untransform` may look: it takes so many together."""
# The order in which `transform` is done with the axes: [z][x][y].
_PLACES = [place & 48 | (place & 3) << 2 | (place & 12) >> 2 for place in SEQUENCY]
_FROM_PLACES = [_PLACES.index(place) for place in range(BLOCK)]
# Halves of a transposition of 4 x 4 units, in vectors of 16 lanes: from each two vectors to one. Units of 1 are
# transposed in each four lanes.
_PAIRS = {
    1: [[four + lane for four in (0, 4, 8, 12) for lane in lanes] for lanes in ((0, 16, 1, 17), (2, 18, 3, 19))],
    4: [[unit + lane for unit in units for lane in range(4)] for units in ((0, 4, 16, 20), (8, 12, 24, 28))],
}
_FOURS = {
    1: [[four + lane for four in (0, 4, 8, 12) for lane in lanes] for lanes in ((0, 1, 16, 17), (2, 3, 18, 19))],
    4: [[unit + lane for unit in units for lane in range(4)] for units in ((0, 8, 16, 24), (4, 12, 20, 28))],
}


def _splat(value: int, vector: ir.VectorType = _LANES) -> ir.Constant:
    return ir.Constant(vector, [value] * BLOCK)


def _broadcast(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    vector = ir.VectorType(value.type, BLOCK)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _INT(0))
    return builder.shuffle_vector(first, first, ir.Constant(_LANES, [0] * BLOCK))


def _shuffle(builder: ir.IRBuilder, vector: ir.Value, lanes: Sequence[int]) -> ir.Value:
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes)))


def _quarters(builder: ir.IRBuilder, vector: ir.Value) -> Values:
    return [_shuffle(builder, vector, range(first, first + 16)) for first in range(0, BLOCK, 16)]


def _whole(builder: ir.IRBuilder, quarters: Values) -> ir.Value:
    def joined(left: ir.Value, right: ir.Value, lanes: int) -> ir.Value:
        return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, lanes), list(range(lanes))))

    a, b, c, d = quarters
    return joined(joined(a, b, 32), joined(c, d, 32), 64)


def _exchanged(builder: ir.IRBuilder, quarters: Values, unit: int) -> Values:
    """Transposes: the quarters' axis with that of their lanes by `unit`."""

    def picked(left: ir.Value, right: ir.Value, lanes: Sequence[int]) -> ir.Value:
        return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, 16), lanes))

    (low, high), (even, odd) = _PAIRS[unit], _FOURS[unit]
    a, b, c, d = quarters
    ab_low, ab_high, cd_low, cd_high = picked(a, b, low), picked(a, b, high), picked(c, d, low), picked(c, d, high)
    return [
        picked(ab_low, cd_low, even),
        picked(ab_low, cd_low, odd),
        picked(ab_high, cd_high, even),
        picked(ab_high, cd_high, odd),
    ]


def _halved(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    return builder.ashr(vector, ir.Constant(vector.type, [1] * vector.type.count))


def _lift(builder: ir.IRBuilder, quarters: Values) -> Values:
    """ZFP's decorrelating transform of each quarter's first values, its second ones, and so on."""
    add, sub = builder.add, builder.sub
    x, y, z, w = quarters
    x = _halved(builder, add(x, w))
    w = sub(w, x)
    z = _halved(builder, add(z, y))
    y = sub(y, z)
    x = _halved(builder, add(x, z))
    z = sub(z, x)
    w = _halved(builder, add(w, y))
    y = sub(y, w)
    w = add(w, _halved(builder, y))
    y = sub(y, _halved(builder, w))
    return [x, y, z, w]


def _unlift(builder: ir.IRBuilder, quarters: Values) -> Values:
    """The inverse of `_lift`, but for the bits that the halving lost."""
    add, sub = builder.add, builder.sub
    x, y, z, w = quarters
    y = add(y, _halved(builder, w))
    w = sub(w, _halved(builder, y))
    y, w = add(w, y), sub(w, y)
    z, x = add(x, z), sub(x, z)
    y, z = add(z, y), sub(z, y)
    w, x = add(x, w), sub(x, w)
    return [x, y, z, w]


@intrinsic
def transform(typing: Any, values: Any, start: Any, scale: Any, tiny: Any, coefficients: Any) -> Generated:
    """transform(values: float32, start: int64, scale: float32, tiny: bool, coefficients: uint32[64]) -> uint32.

    64 values from `start` on, times `scale`, cut to integers, become coefficients in the order of their frequency, in
    negabinary. Returns what bits any of them has. A `tiny` block's scale is infinite: each of its integers is the least
    one, as conversions on x86 would have it, and zfpy has.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        values, start, scale, tiny, coefficients = arguments
        source = pointer(context, builder, signature.args[0], values, start)
        block = load(builder, source, _FLOATS, 4)
        scale = builder.select(tiny, _FLOAT(0), scale)  # What follows is undefined out of an integer's range.
        integers = builder.fptosi(builder.fmul(block, _broadcast(builder, scale)), _LANES)
        integers = builder.select(tiny, _splat(-(1 << 31)), integers)
        quarters = _quarters(builder, integers)
        for unit in (1, 4, 1):
            quarters = _lift(builder, _exchanged(builder, quarters, unit))
        integers = _shuffle(builder, _whole(builder, quarters), _PLACES)
        negabinary = builder.xor(builder.add(integers, _splat(_NEGABINARY)), _splat(_NEGABINARY))
        store(builder, negabinary, pointer(context, builder, signature.args[4], coefficients, _LONG(0)), 4)
        kind = ir.FunctionType(_INT, [_LANES])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.or.v64i32")
        return builder.call(reduce, [negabinary])

    return types.uint32(values, types.int64, types.float32, types.boolean, coefficients), generate


@intrinsic
def plane(typing: Any, coefficients: Any, bit: Any) -> Generated:
    """plane(coefficients: uint32[64], bit: int64) -> uint64: that bit of every coefficient, the first one's lowest."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        coefficients, bit = arguments
        source = pointer(context, builder, signature.args[0], coefficients, _LONG(0))
        block = load(builder, source, _LANES, 4)
        top = builder.shl(block, _broadcast(builder, builder.sub(_INT(31), builder.trunc(bit, _INT))))
        return builder.bitcast(builder.icmp_signed("<", top, _splat(0)), _LONG)

    return types.uint64(coefficients, types.int64), generate


def _bytes_of(builder: ir.IRBuilder, planes: ir.Value, count: ir.Value) -> ir.Value:
    """A byte for each place: its bits in the first `count` planes, 8 at most, the first one's lowest."""
    ones = []
    for number in range(SPARE_PLANES):
        mask = builder.bitcast(builder.load(builder.gep(planes, [_LONG(number)])), _MASK)
        ones.append(builder.select(mask, _splat(1 << number, _BYTES), _splat(0, _BYTES)))
    read = builder.sub(builder.shl(_LONG(1), count), _LONG(1))
    read = builder.select(builder.icmp_signed("<", count, _LONG(SPARE_PLANES)), read, _LONG(255))
    whole = builder.and_(functools.reduce(builder.or_, ones), _broadcast(builder, builder.trunc(read, _BYTE)))
    return _shuffle(builder, whole, _FROM_PLACES)


@intrinsic
def untransform(
    typing: Any,
    planes: Any,
    lowest: Any,
    end: Any,
    known: Any,
    middle: Any,
    rest_middle: Any,
    scale: Any,
    adds: Any,
    values: Any,
    start: Any,
) -> Generated:
    """untransform(planes: uint64, lowest, end, known, middle, rest_middle, scale, adds: bool, values: float32, start).

    Coefficients become 64 values, from `start` on, or are added to those if it `adds`. Their bits are in the planes
    `lowest` to `end`, exclusive; there are 8 more planes in memory, of any bits. `middle` is added to the first `known`
    coefficients, and `rest_middle` to the others: int32, as `known`; what numbers planes and places is int64.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        planes, lowest, end, known, middle, rest_middle, scale, adds, values, start = arguments
        block = cgutils.alloca_once_value(builder, _splat(0))
        with cgutils.for_range_slice(builder, lowest, end, _LONG(SPARE_PLANES)) as (first, _):
            data = pointer(context, builder, signature.args[0], planes, first)
            lanes = builder.zext(_bytes_of(builder, data, builder.sub(end, first)), _LANES)
            lanes = builder.shl(lanes, _broadcast(builder, builder.trunc(first, _INT)))
            builder.store(builder.or_(builder.load(block), lanes), block)
        is_known = builder.icmp_unsigned("<", ir.Constant(_LANES, _FROM_PLACES), _broadcast(builder, known))
        middle, rest_middle = (builder.sub(each, _INT(_NEGABINARY)) for each in (middle, rest_middle))
        middles = builder.select(is_known, _broadcast(builder, middle), _broadcast(builder, rest_middle))
        integers = builder.add(builder.xor(builder.load(block), _splat(_NEGABINARY)), middles)
        quarters = _quarters(builder, integers)
        for unit in (1, 4, 1):
            quarters = _exchanged(builder, _unlift(builder, quarters), unit)
        floats = builder.fmul(builder.sitofp(_whole(builder, quarters), _FLOATS), _broadcast(builder, scale))
        target = pointer(context, builder, signature.args[8], values, start)
        with builder.if_else(adds) as (then, otherwise):
            with then:
                store(builder, builder.fadd(load(builder, target, _FLOATS, 4), floats), target, 4)
            with otherwise:
                store(builder, floats, target, 4)
        return context.get_dummy_value()

    long, word = types.int64, types.int32
    return types.void(planes, long, long, word, word, word, types.float32, types.boolean, values, long), generate


@intrinsic
def prefetch(typing: Any, values: Any, start: Any) -> Generated:
    """prefetch(values: float32, start: int64): 64 values from there on will be written soon. There need not be any."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        target = builder.bitcast(pointer(context, builder, signature.args[0], *arguments), _BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [target.type, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        for offset in range(0, 4 * BLOCK, _LINE):
            builder.call(function, [builder.gep(target, [_LONG(offset)]), _INT(1), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(values, types.int64), generate
