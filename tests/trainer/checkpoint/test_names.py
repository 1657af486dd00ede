import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.names import CheckpointName
from ringtrain.contract.generation import Generation

names = st.builds(
    CheckpointName, st.builds(Generation, st.integers(0, 10**6), st.integers(0, 10**6)), st.integers(0, 10**10)
)


@given(names)
def test_a_name_reads_back(name: CheckpointName) -> None:
    assert CheckpointName.parse(str(name)) == name
    assert CheckpointName.parse_hidden(name.staging) == name
    assert CheckpointName.parse_hidden(name.removed) == name


@given(names, names)
def test_order_is_generation_then_round(one: CheckpointName, other: CheckpointName) -> None:
    key = (one.generation.epoch, one.generation.attempt, one.round)
    other_key = (other.generation.epoch, other.generation.attempt, other.round)
    assert (one < other) == (key < other_key)


@given(names, st.integers(0, 99_999_999), st.integers(0, 99_999_999))
def test_within_a_generation_the_text_sorts_by_round(name: CheckpointName, one: int, other: int) -> None:
    texts = [str(CheckpointName(name.generation, round)) for round in (one, other)]
    assert (texts[0] < texts[1]) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lost+found",
        "round-5.gen-1.0",
        "round-00000005.gen-1",
        "round-00000005.gen-01.0",
        "round-00000005.gen-1.0.bak",
    ],
)
def test_other_names_are_none(text: str) -> None:
    assert CheckpointName.parse(text) is None
    assert CheckpointName.parse_hidden(text) is None


def test_a_staging_directory_is_no_checkpoint() -> None:
    name = CheckpointName(Generation(1, 0), 20)
    assert str(name) == "round-00000020.gen-1.0"
    assert CheckpointName.parse(name.staging) is None
    assert CheckpointName.parse(name.removed) is None
