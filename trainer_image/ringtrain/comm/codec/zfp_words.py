"""What numba cannot say of itself: instructions on single words, and memory as words of 64 bits.

Arrays are 1-D and contiguous, and nothing is checked.
"""

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
import numpy
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, config
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np import arrayobj


def _has(feature: str) -> bool:
    """Whether code may be made for a processor with it."""
    if config.CPU_FEATURES is None:
        return bool(llvmlite.binding.get_host_cpu_features().get(feature, False))
    return f"+{feature}" in config.CPU_FEATURES  # As NUMBA_CPU_FEATURES says, or NUMBA_CPU_NAME=generic.


HAS_BMI2 = _has("bmi2")
"""Whether bits are scattered and gathered by a mask in one instruction."""
HAS_PCLMUL = _has("pclmul")
"""Whether words are multiplied as polynomials over GF(2) in one instruction."""

Values = Sequence[ir.Value]
Generated = tuple[Signature, Callable[..., Any]]
"""What numba asks of an intrinsic: its types, and what writes its instructions."""


_ONE = numpy.uint64(1)
_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()


def pointer(
    context: Any, builder: ir.IRBuilder, array_type: types.Array, array: ir.Value, offset: ir.Value
) -> ir.Value:
    data = arrayobj.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def load(builder: ir.IRBuilder, pointer: ir.Value, kind: ir.Type, align: int) -> ir.Value:
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def store(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, align: int) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


@intrinsic
def load_word(typing: Any, data: Any, index: Any) -> Generated:
    """load_word(data: uint8, index: int64) -> uint64: the 8 bytes from 8 * index on, of any alignment."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        offset = builder.shl(arguments[1], _LONG(3))
        return load(builder, pointer(context, builder, signature.args[0], arguments[0], offset), _LONG, 1)

    return types.uint64(data, types.int64), generate


@intrinsic
def load_bits(typing: Any, data: Any, position: Any) -> Generated:
    """load_bits(data: uint8, position: int64) -> uint64: the bits from there on, 57 at least, and zeros after them."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        offset = builder.lshr(arguments[1], _LONG(3))
        word = load(builder, pointer(context, builder, signature.args[0], arguments[0], offset), _LONG, 1)
        return builder.lshr(word, builder.and_(arguments[1], _LONG(7)))

    return types.uint64(data, types.int64), generate


@intrinsic
def store_word(typing: Any, data: Any, index: Any, word: Any) -> Generated:
    """store_word(data: uint8, index: int64, word: uint64): the counterpart of `load_word`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        offset = builder.shl(arguments[1], _LONG(3))
        store(builder, arguments[2], pointer(context, builder, signature.args[0], arguments[0], offset), 1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def bits_of(typing: Any, value: Any) -> Generated:
    """bits_of(value: float32) -> uint32"""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.bitcast(arguments[0], _INT)

    return types.uint32(types.float32), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Generated:
    """float_of(bits: uint32) -> float32"""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        return builder.bitcast(arguments[0], _FLOAT)

    return types.float32(types.uint32), generate


def _instruction(name: str, result: types.Type, *arguments: types.Type, flags: Values = ()) -> Any:
    """An instruction on words of 64 bits, as LLVM names it."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Signature, given: Values) -> ir.Value:
        values = [*given, *flags]
        kind = ir.FunctionType(_LONG, [value.type for value in values])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    if len(arguments) == 1:
        return intrinsic(lambda typing, word: (result(*arguments), emit))
    return intrinsic(lambda typing, word, mask: (result(*arguments), emit))


_DEFINED_FOR_ZERO = [ir.IntType(1)(0)]
ones = _instruction("llvm.ctpop.i64", types.int64, types.uint64)
"""ones(word: uint64) -> int64"""
zeros_below = _instruction("llvm.cttz.i64", types.int64, types.uint64, flags=_DEFINED_FOR_ZERO)
"""zeros_below(word: uint64) -> int64: those below the lowest one; 64 without one."""
zeros_above = _instruction("llvm.ctlz.i64", types.int64, types.uint64, flags=_DEFINED_FOR_ZERO)
"""zeros_above(word: uint64) -> int64: those above the highest one; 64 without one."""
scatter_by_instruction = _instruction("llvm.x86.bmi.pdep.64", types.uint64, types.uint64, types.uint64)
"""scatter(word, mask: uint64) -> uint64: the lowest bits of the word, in turn, at the ones of the mask. Needs BMI2."""
gather_by_instruction = _instruction("llvm.x86.bmi.pext.64", types.uint64, types.uint64, types.uint64)
"""gather(word, mask: uint64) -> uint64: the bits of the word at the ones of the mask, side by side. Needs BMI2."""


@intrinsic
def odd_below_by_instruction(typing: Any, word: Any) -> Generated:
    """odd_below(word: uint64) -> uint64: of each bit, whether the ones below it are odd in number. Needs PCLMULQDQ."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        pair = ir.VectorType(_LONG, 2)
        half = ir.IntType(8)
        kind = ir.FunctionType(pair, [pair, pair, half])
        multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")
        factor = builder.insert_element(ir.Constant(pair, [0, 0]), arguments[0], _INT(0))
        product = builder.call(multiply, [factor, ir.Constant(pair, [2**64 - 2, 0]), half(0)])
        return builder.extract_element(product, _INT(0))

    return types.uint64(types.uint64), generate


@njit
def odd_below_by_steps(word: numpy.uint64) -> numpy.uint64:
    """`odd_below` for processors without PCLMULQDQ."""
    word <<= _ONE
    word ^= word << numpy.uint64(1)
    word ^= word << numpy.uint64(2)
    word ^= word << numpy.uint64(4)
    word ^= word << numpy.uint64(8)
    word ^= word << numpy.uint64(16)
    return word ^ word << numpy.uint64(32)


@njit
def scatter_by_steps(word: numpy.uint64, mask: numpy.uint64) -> numpy.uint64:
    """`scatter` for processors without BMI2."""
    scattered = numpy.uint64(0)
    while mask:
        lowest = mask & (~mask + _ONE)
        if word & _ONE:
            scattered |= lowest
        word >>= _ONE
        mask ^= lowest
    return scattered


@njit
def gather_by_steps(word: numpy.uint64, mask: numpy.uint64) -> numpy.uint64:
    """`gather` for processors without BMI2."""
    gathered, bit = numpy.uint64(0), _ONE
    while mask:
        lowest = mask & (~mask + _ONE)
        if word & lowest:
            gathered |= bit
        bit <<= _ONE
        mask ^= lowest
    return gathered


scatter = scatter_by_instruction if HAS_BMI2 else scatter_by_steps
gather = gather_by_instruction if HAS_BMI2 else gather_by_steps
odd_below = odd_below_by_instruction if HAS_PCLMUL else odd_below_by_steps
