"""Blocks of values on a GPU: from and to memory, and to and from coefficients.

A block is 64 vectors with an element for each block of the program, so that each thread has all of one block. Values
are float32 then; the order is that of memory unless something else is said.
"""

import triton
import triton.language as tl

from ringtrain.comm.codec import zfp_format

_BLOCK = tl.constexpr(zfp_format.BLOCK)
_ROW = tl.constexpr(zfp_format.ROW)
_SEQUENCY = tl.constexpr(tuple(zfp_format.SEQUENCY))
_PLACES = tl.constexpr(tuple(zfp_format.SEQUENCY.index(place) for place in range(zfp_format.BLOCK)))
_NEGABINARY = tl.constexpr(0xAAAAAAAA)
_LEAST_INTEGER = tl.constexpr(-(2.0**31))
_GREATEST_HALF = tl.constexpr(65504.0)
INFINITY = tl.constexpr(0x7F800000)
"""The magnitude of infinity; that of NaN is greater."""


@triton.jit
def fours(block: tl.tensor, place: tl.tensor) -> tl.tensor:
    """Where values `place` to `place + 4` of blocks lie: a matrix."""
    return (block * _BLOCK + place)[:, None] + tl.arange(0, 4)[None, :]


@triton.jit
def take_fours(values: tl.tensor, index: tl.tensor, numel: tl.tensor) -> tl.tuple:
    """Four vectors; zeros where there are no values."""
    matrix = tl.load(values + index, mask=index < numel, other=0.0).to(tl.float32)
    even, odd = tl.split(tl.reshape(matrix, [index.shape[0], 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return [first, second, third, fourth]


@triton.jit
def give_fours(given: tl.tuple, values: tl.tensor, index: tl.tensor, numel: tl.tensor) -> None:
    """Writes four vectors. What passes float16's range becomes its greatest finite value."""
    matrix = tl.reshape(tl.join(tl.join(given[0], given[2]), tl.join(given[1], given[3])), index.shape)
    if values.dtype.element_ty == tl.float16:
        matrix = tl.minimum(tl.maximum(matrix, -_GREATEST_HALF), _GREATEST_HALF)
    if values.dtype.element_ty == tl.bfloat16:  # Triton's interpreter would not round to the nearest.
        bits = matrix.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        tl.store(values + index, rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True), mask=index < numel)
    else:
        tl.store(values + index, matrix.to(values.dtype.element_ty), mask=index < numel)


@triton.jit
def take(values: tl.tensor, block: tl.tensor, numel: tl.tensor) -> tl.tuple:
    """Copies blocks, and fills up the last one: zeros to the end of the row; then rows as zfp takes them for those that
    are missing. Blocks after the last one are zero."""
    rows = (numel - block * _BLOCK + _ROW - 1) // _ROW
    taken = []
    for row in tl.static_range(_BLOCK // _ROW):
        source = tl.where(row < rows, row, tl.where((rows == 2) & (row == 2), 1, 0))
        for column in tl.static_range(0, _ROW, 4):
            taken = taken + take_fours(values, fours(block, source * _ROW + column), numel)
    return taken


@triton.jit
def greatest(block: tl.tuple) -> tl.tensor:
    """The greatest magnitude: a value's bits but for its sign, uint32."""
    found = block[0].to(tl.uint32, bitcast=True) & 0x7FFFFFFF
    for place in tl.static_range(1, _BLOCK):
        found = tl.maximum(found, block[place].to(tl.uint32, bitcast=True) & 0x7FFFFFFF)
    return found


@triton.jit
def _lift(x: tl.tensor, y: tl.tensor, z: tl.tensor, w: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """ZFP's decorrelating transform."""
    x = (x + w) >> 1
    w = w - x
    z = (z + y) >> 1
    y = y - z
    x = (x + z) >> 1
    z = z - x
    w = (w + y) >> 1
    y = y - w
    w = w + (y >> 1)
    y = y - (w >> 1)
    return x, y, z, w


@triton.jit
def _unlift(
    x: tl.tensor, y: tl.tensor, z: tl.tensor, w: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The inverse of `_lift`, but for the bits that the halving lost."""
    y = y + (w >> 1)
    w = w - (y >> 1)
    y = y + w
    w = w + w - y
    z = z + x
    x = x + x - z
    y = y + z
    z = z + z - y
    w = w + x
    x = x + x - w
    return x, y, z, w


@triton.jit
def _lift_fastest(block: tl.tuple) -> tl.tuple:
    """Transforms along the axis whose neighbours lie side by side, and makes it the slowest."""
    xs = []
    ys = []
    zs = []
    ws = []
    for line in tl.static_range(_BLOCK // 4):
        x, y, z, w = _lift(block[4 * line], block[4 * line + 1], block[4 * line + 2], block[4 * line + 3])
        xs = xs + [x]
        ys = ys + [y]
        zs = zs + [z]
        ws = ws + [w]
    return xs + ys + zs + ws


@triton.jit
def _unlift_slowest(block: tl.tuple) -> tl.tuple:
    """Undoes `_lift_fastest`."""
    lines = []
    for line in tl.static_range(_BLOCK // 4):
        x, y, z, w = _unlift(block[line], block[16 + line], block[32 + line], block[48 + line])
        lines = lines + [x, y, z, w]
    return lines


@triton.jit
def transform(block: tl.tuple, magnitude: tl.tensor) -> tuple[tl.tuple, tl.tensor]:
    """Coefficients of blocks with that greatest magnitude, by frequency, in negabinary; and their headers, uint64.

    Of a block that is not finite they mean nothing.
    """
    exponent = (magnitude >> 23).to(tl.int32)
    # 2 to the 30 minus a tiny block's exponent passes the range of float32: each of its integers is the least one, as
    # conversions on x86 would have it, and zfpy has.
    usable = (exponent >= 29) & (magnitude < INFINITY)
    scale = (tl.where(usable, 283 - exponent, 0) << 23).to(tl.float32, bitcast=True)
    instead = tl.where((magnitude > 0) & (exponent < 29), _LEAST_INTEGER, 0.0)
    integers = []
    for place in tl.static_range(_BLOCK):
        integers = integers + [tl.where(usable, block[place] * scale, instead).to(tl.int32)]
    integers = _lift_fastest(_lift_fastest(_lift_fastest(integers)))
    coefficients = []
    for place in tl.static_range(_BLOCK):
        integer = integers[_SEQUENCY[place]].to(tl.uint32, bitcast=True)
        coefficients = coefficients + [(integer + _NEGABINARY) ^ _NEGABINARY]
    header = tl.where(magnitude > 0, 2 * (exponent + 1) + 1, 0)
    return coefficients, header.to(tl.uint64)


@triton.jit
def _middle(cut: tl.tensor) -> tl.tensor:
    """The middle of what the lowest `cut` bits can add, in negabinary: see `zfp_kernels`."""
    sixth = ((tl.full(cut.shape, 0x55555555, tl.uint64) << cut) >> 33).to(tl.int32)
    return tl.where((cut & 1) != 0, sixth, -sixth)


@triton.jit
def untransform(
    exponent: tl.tensor, coefficients: tl.tuple, lowest: tl.tensor, known: tl.tensor, midpoint: tl.constexpr
) -> tl.tuple:
    """Values of what `zfp_triton_planes.read` read."""
    middle = _middle(lowest)
    rest_middle = _middle(lowest + 1)
    integers = []
    for place in tl.static_range(_BLOCK):
        negabinary = coefficients[_PLACES[place]]
        integer = ((negabinary ^ _NEGABINARY) - _NEGABINARY).to(tl.int32, bitcast=True)
        if midpoint:
            integer += tl.where(_PLACES[place] < known, middle, rest_middle)
        integers = integers + [integer]
    integers = _unlift_slowest(_unlift_slowest(_unlift_slowest(integers)))
    normal = tl.maximum(exponent - 30, 0) << 23
    subnormal = (1 << tl.minimum(exponent, 30)) >> 8  # Or zero.
    scale = tl.where(exponent > 30, normal, subnormal).to(tl.float32, bitcast=True)
    values = []
    for place in tl.static_range(_BLOCK):
        values = values + [integers[place].to(tl.float32) * scale]
    return values
