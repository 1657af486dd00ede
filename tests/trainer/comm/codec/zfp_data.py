"""Values for zfp's tests: blocks of every kind that its format treats in a way of its own."""

import numpy
import torch
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

FLOAT32 = numpy.finfo(numpy.float32)
KINDS = ("gaussian", "any", "subnormal", "zero", "lone", "constant", "ramp", "sparse", "wide")


def _block(kind: str, exponent: int, random: Generator) -> NDArray[numpy.float32]:
    scale = 2.0**exponent
    values: NDArray[numpy.generic]
    match kind:
        case "gaussian":
            values = random.standard_normal(64) * scale
        case "any":  # Every pattern of bits that is finite.
            bits = random.integers(0, 2**32, 64, dtype=numpy.uint32)
            finite = bits & 0x7F800000 != 0x7F800000
            bits = numpy.where(finite, bits, 0x80000000).astype(numpy.uint32)
            return bits.view(numpy.float32)
        case "subnormal":
            values = random.integers(-(2**23), 2**23, 64) * 2.0**-149
        case "zero":
            values = random.choice([0.0, -0.0], 64)
        case "lone":
            values = numpy.zeros(64)
            values[random.integers(64)] = scale
        case "constant":
            values = numpy.full(64, -scale)
        case "ramp":
            values = numpy.arange(64) * scale / 64
        case "sparse":
            values = random.standard_normal(64) * scale * (random.random(64) < 0.1)
        case _:
            values = random.standard_normal(64) * 2.0 ** random.integers(-149, 127, 64)
    return numpy.clip(values, FLOAT32.min, FLOAT32.max).astype(numpy.float32)


@st.composite
def float_values(draw: st.DrawFn, least: int = 0) -> Tensor:
    """Some blocks, and the beginning of another."""
    kinds = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(-149, 127)), min_size=1, max_size=5))
    random = numpy.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    whole = numpy.concatenate([_block(kind, exponent, random) for kind, exponent in kinds])
    return torch.from_numpy(whole[: draw(st.integers(least, len(whole)))])


def every_kind(blocks: int, seed: int) -> Tensor:
    """Blocks of all kinds in turn."""
    random = numpy.random.default_rng(seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(blocks)]
    return torch.from_numpy(
        numpy.concatenate([_block(kind, int(random.integers(-149, 128)), random) for kind in kinds])
    )


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors are alike to the sign of their zeros."""
    kind = torch.int32 if left.dtype == torch.float32 else torch.int16
    return left.dtype == right.dtype and torch.equal(left.view(kind), right.view(kind))
