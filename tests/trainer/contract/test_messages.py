import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ringtrain.contract.messages import Alive, Beat, Down, Hello, Message, Up, decode, encode
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress

KINDS = [Hello, Alive, *Up.__args__, *Down.__args__]
MESSAGES = st.one_of([st.from_type(kind) for kind in KINDS])


@given(MESSAGES)
def test_messages_survive_the_round_trip_as_one_line(message: Message) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    # Compared as text, for a NaN is not equal to itself.
    assert encode(decode(line)) == line
    assert type(decode(line)) is type(message)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_arrives_as_it_is(loss: float) -> None:
    beat = Beat(rank=1, phase=Phase.TRAINING, progress=Progress(round=1, total_rounds=2, loss=loss))
    arrived = decode(encode(beat))
    assert isinstance(arrived, Beat)
    assert arrived.progress is not None
    assert repr(arrived.progress.loss) == repr(loss)


def test_every_kind_has_a_type_of_its_own() -> None:
    types = {kind.model_fields["type"].default for kind in KINDS}
    assert len(types) == len(KINDS)


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"type":"nonsense"}', b'{"type":"done","rank":"x"}', b"\xff\n"])
def test_anything_else_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(line)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="extra"):
        decode(b'{"type":"ready","rank":1,"colour":"red"}')


def test_fields_are_camel_case_outside() -> None:
    assert encode(Beat(rank=1, phase=Phase.TRAINING)) == b'{"type":"beat","rank":1,"phase":"training"}\n'
    assert b'"knownGeneration":"3.0"' in encode(Hello(job="j", replica=0, epoch=3, ranks=(0,), known_generation="3.0"))
