import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.comm.codec.zfp_words import (
    HAS_BMI2,
    HAS_PCLMUL,
    gather,
    gather_by_steps,
    odd_below,
    odd_below_by_steps,
    scatter,
    scatter_by_steps,
)

WORDS = st.integers(0, 2**64 - 1)
needs_instructions = pytest.mark.skipif(
    not HAS_BMI2 or not HAS_PCLMUL, reason="the processor has no instructions for it"
)


def scattered(word: int, mask: int) -> int:
    places = [place for place in range(64) if mask >> place & 1]
    return sum((word >> index & 1) << place for index, place in enumerate(places))


def gathered(word: int, mask: int) -> int:
    places = [place for place in range(64) if mask >> place & 1]
    return sum((word >> place & 1) << index for index, place in enumerate(places))


def are_odd_below(word: int) -> int:
    return sum(((word & (1 << place) - 1).bit_count() & 1) << place for place in range(64))


@settings(deadline=None)
@given(word=WORDS, mask=WORDS)
def test_by_steps(word: int, mask: int) -> None:
    assert scatter_by_steps(numpy.uint64(word), numpy.uint64(mask)) == scattered(word, mask)
    assert gather_by_steps(numpy.uint64(word), numpy.uint64(mask)) == gathered(word, mask)
    assert odd_below_by_steps(numpy.uint64(word)) == are_odd_below(word)


@needs_instructions
def test_the_instructions_are_used_where_there_are_any() -> None:
    assert scatter is not scatter_by_steps
    assert gather is not gather_by_steps
    assert odd_below is not odd_below_by_steps
