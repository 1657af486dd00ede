"""What numba cannot say of itself: a block's 64 values as one vector.

The compiler cuts the vectors to what the processor has: AVX-512, AVX2, SSE, NEON. Arrays are 1-D and contiguous, and
nothing is checked.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ringtrain.comm.codec.zfp_format import BLOCK, SEQUENCY
from ringtrain.comm.codec.zfp_words import Generated, Values, load, pointer, store

_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_LANES = ir.VectorType(_INT, BLOCK)
_MASK = ir.VectorType(ir.IntType(1), BLOCK)
_NEGABINARY = 0xAAAAAAAA
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


def _splat(value: int) -> ir.Constant:
    return ir.Constant(_LANES, [value] * BLOCK)


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
    y = add(y, w)
    w = sub(add(w, w), y)
    z = add(z, x)
    x = sub(add(x, x), z)
    y = add(y, z)
    z = sub(add(z, z), y)
    w = add(w, x)
    x = sub(add(x, x), w)
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
        block = load(builder, source, ir.VectorType(_FLOAT, BLOCK), 4)
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


@intrinsic
def untransform(
    typing: Any,
    planes: Any,
    slot: Any,
    lowest: Any,
    end: Any,
    known: Any,
    middle: Any,
    rest_middle: Any,
    scale: Any,
    values: Any,
    start: Any,
) -> Generated:
    """untransform(planes: uint64, slot, lowest, end, known, middle, rest_middle, scale, values: float32, start).

    Coefficients become 64 values, from `start` on. Their bits are in the planes `lowest` to `end`, exclusive, after the
    first `32 * slot`; those of plane n count (-2)**n. `middle` is added to the first `known` coefficients, and
    `rest_middle` to the others: int32, as `known`; what numbers planes and places is int64.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        planes, slot, lowest, end, known, middle, rest_middle, scale, values, start = arguments
        data = pointer(context, builder, signature.args[0], planes, builder.shl(slot, _LONG(5)))
        block = cgutils.alloca_once_value(builder, _broadcast(builder, rest_middle))
        with builder.if_then(builder.icmp_unsigned("!=", middle, rest_middle)):
            is_known = builder.icmp_unsigned("<", ir.Constant(_LANES, list(range(BLOCK))), _broadcast(builder, known))
            middles = builder.select(is_known, _broadcast(builder, middle), _broadcast(builder, rest_middle))
            builder.store(middles, block)
        with cgutils.for_range(builder, end, start=lowest) as loop:
            mask = builder.bitcast(builder.load(builder.gep(data, [loop.index])), _MASK)
            number = builder.trunc(loop.index, _INT)
            bit = builder.shl(_INT(1), number)
            bit = builder.select(builder.trunc(number, ir.IntType(1)), builder.neg(bit), bit)
            added = builder.select(mask, _broadcast(builder, bit), _splat(0))
            builder.store(builder.add(builder.load(block), added), block)
        integers = builder.load(block)
        quarters = _quarters(builder, _shuffle(builder, integers, _FROM_PLACES))
        for unit in (1, 4, 1):
            quarters = _exchanged(builder, _unlift(builder, quarters), unit)
        floats = builder.sitofp(_whole(builder, quarters), ir.VectorType(_FLOAT, BLOCK))
        floats = builder.fmul(floats, _broadcast(builder, scale))
        store(builder, floats, pointer(context, builder, signature.args[8], values, start), 4)
        return context.get_dummy_value()

    word = types.int32
    return types.void(
        planes, types.int64, types.int64, types.int64, word, word, word, types.float32, values, types.int64
    ), generate
