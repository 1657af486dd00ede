import pytest

from ringtrain.contract.communication import CommunicationConfig
from ringtrain_operator.advisor.formats import BF16, NONE, format_of, int4, zfp


@pytest.mark.parametrize(
    ("written", "bits", "size"), [(NONE, 32, 408), (BF16, 16, 208), (zfp(4), 4, 72), (int4(32), 4.5, 80)]
)
def test_sizes(written: object, bits: float, size: int) -> None:
    """`size` is of a message of 100 values."""
    assert isinstance(written, type(NONE))
    assert written.bits == bits
    assert written.message_bytes(100) == size


def test_formats_of_jobs() -> None:
    assert format_of(CommunicationConfig(codec="zfp", rate=8)) == zfp(8)
    assert format_of(CommunicationConfig(codec="zfp")) == zfp(5)
    assert format_of(CommunicationConfig(codec="int4", rotate=True)).name == "int4-128-rotated"
    assert format_of(CommunicationConfig(codec="none")) == NONE
    assert format_of(CommunicationConfig(codec="bf16")) == BF16


def test_a_bit_more_halves_the_error() -> None:
    assert zfp(5).error == zfp(4).error / 2
