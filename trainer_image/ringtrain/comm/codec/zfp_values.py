"""Single values as numba reads and writes them: float32 arrays, uint16 arrays for bfloat16, int16 arrays for float16.

numba has no type for either 16-bit float. These are loops' bodies: the compiler makes vectors of them.
"""

from collections.abc import Callable
from typing import Any

import numpy
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

from ringtrain.comm.codec.zfp_words import bits_of, float_of

Values = NDArray[numpy.float32] | NDArray[numpy.uint16] | NDArray[numpy.int16]

_Bits = numpy.uint32
INFINITY = _Bits(0x7F800000)
"""The magnitude of infinity; that of NaN is greater."""
_MAGNITUDE = _Bits(0x7FFFFFFF)
_HALF_SIGN, _HALF_MAGNITUDE, _HALF_INFINITY, _HALF_NORMAL = _Bits(0x8000), _Bits(0x7FFF), _Bits(0x7C00), _Bits(0x0400)
_HALF_BIAS = _Bits((127 - 15) << 23)
_LEAST_NORMAL_HALF = _Bits((127 - 14) << 23)
_GREATEST_HALF = _Bits(0x477FE000)
_HALF_UNIT = _Bits(127 - 24 + 23)
_DIGITS, _LEADING_DIGIT = _Bits(0x7FFFFF), _Bits(0x800000)


def get(values: Values, start: int, index: int) -> numpy.float32:
    """`values[start + index]` as float32. Neither is negative: numba would test for it, and make no vectors then."""
    raise NotImplementedError  # Only for numba.


def put(values: Values, start: int, index: int, value: numpy.float32) -> None:
    """Sets what `get` gets, rounded to the nearest. What passes float16's range becomes its greatest finite value."""
    raise NotImplementedError  # Only for numba.


@njit
def magnitude(value: numpy.float32) -> numpy.uint32:
    """The value's bits but for its sign: they grow as it does, and are less than `INFINITY` if it is finite."""
    return _Bits(bits_of(value) & _MAGNITUDE)


@njit
def _from_bfloat16(half: numpy.uint16) -> numpy.float32:
    return float_of(_Bits(_Bits(half) << 16))


@njit
def _from_float16(half: numpy.int16) -> numpy.float32:
    digits = _Bits(_Bits(half) & _HALF_MAGNITUDE)
    bits = _Bits(digits << 13)
    if digits >= _HALF_INFINITY:
        bits = _Bits(bits | INFINITY)
    elif digits >= _HALF_NORMAL:
        bits = _Bits(bits + _HALF_BIAS)
    else:
        bits = bits_of(float_of(_Bits(bits | _LEAST_NORMAL_HALF)) - float_of(_LEAST_NORMAL_HALF))
    return float_of(_Bits(bits | (_Bits(half) & _HALF_SIGN) << 16))


@njit
def _to_bfloat16(value: numpy.float32) -> numpy.uint16:
    bits = bits_of(value)
    return numpy.uint16(_Bits(bits + _Bits(0x7FFF) + (bits >> 16 & _Bits(1))) >> 16)


@njit
def _to_float16(value: numpy.float32) -> numpy.int16:
    digits = min(magnitude(value), _GREATEST_HALF)
    exponent = _Bits(digits >> 23)
    if digits >= _LEAST_NORMAL_HALF:
        cut = _Bits(13)
        kept = _Bits(digits - _HALF_BIAS)
    else:  # In units of the least subnormal.
        cut = _Bits(min(_Bits(_HALF_UNIT - exponent), _Bits(25)))
        kept = _Bits(digits & _DIGITS | _LEADING_DIGIT)
    half = _Bits(kept + (_Bits(1) << (cut - _Bits(1))) - _Bits(1) + (kept >> cut & _Bits(1))) >> cut
    return numpy.int16(half | bits_of(value) >> 16 & _HALF_SIGN)


@njit
def _at(start: int, index: int) -> numpy.uint64:
    return numpy.uint64(start) + numpy.uint64(index)


@overload(get, strict=False)
def _get(values: Any, start: Any, index: Any) -> Callable[..., Any]:
    if values.dtype == types.uint16:
        return lambda values, start, index: _from_bfloat16(values[_at(start, index)])
    if values.dtype == types.int16:
        return lambda values, start, index: _from_float16(values[_at(start, index)])
    return lambda values, start, index: values[_at(start, index)]


@overload(put, strict=False)
def _put(values: Any, start: Any, index: Any, value: Any) -> Callable[..., Any]:
    if values.dtype == types.uint16:

        def store(values: Any, start: Any, index: Any, value: Any) -> None:
            values[_at(start, index)] = _to_bfloat16(value)
    elif values.dtype == types.int16:

        def store(values: Any, start: Any, index: Any, value: Any) -> None:
            values[_at(start, index)] = _to_float16(value)
    else:

        def store(values: Any, start: Any, index: Any, value: Any) -> None:
            values[_at(start, index)] = value

    return store
