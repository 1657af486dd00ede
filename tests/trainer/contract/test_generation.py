import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.generation import Generation

GENERATIONS = st.builds(Generation, st.integers(0, 10**6), st.integers(0, 10**6))


@given(GENERATIONS)
def test_generations_survive_the_round_trip(generation: Generation) -> None:
    assert Generation.parse(str(generation)) == generation


@given(GENERATIONS, GENERATIONS)
def test_the_epoch_is_compared_before_the_attempt(one: Generation, other: Generation) -> None:
    assert (one < other) == ((one.epoch, one.attempt) < (other.epoch, other.attempt))


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "1.2.3", "-1.0", "1.x", " 1.0"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected EPOCH\.ATTEMPT"):
        Generation.parse(text)
