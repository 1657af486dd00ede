import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain_operator.advisor.links import bits_a_second, count, seconds


@pytest.mark.parametrize(
    ("text", "bits"),
    [("25Gbit", 25e9), ("25 Gbit/s", 25e9), ("800Mbit", 8e8), ("1.5Tbit", 1.5e12), ("3GB", 24e9), ("3GB/s", 24e9),
     ("9600bit", 9600), ("1e2kbit", 1e5), (".5Gbit", 5e8)],
)  # fmt: skip
def test_speeds(text: str, bits: float) -> None:
    assert bits_a_second(text) == pytest.approx(bits)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("25Gb", "unknown unit 'Gb': write a speed such as 25Gbit"),
        ("25gbit", "unknown unit 'gbit'"),
        ("25", "the unit is missing"),
        ("25/s", "the unit is missing"),
        ("fast", "is not a speed such as 25Gbit"),
        ("", "is not a speed"),
        ("-1Gbit", "is not a speed"),
        ("0Gbit", r"must be from 1 to 1e\+18 bits a second"),
        ("0.9bit", "must be from 1"),
        ("1e10Gbit", r"to 1e\+18"),
        ("1e999Gbit", r"to 1e\+18"),
    ],
)
def test_what_is_no_speed(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        bits_a_second(text)


@pytest.mark.parametrize(
    ("text", "found"), [("50us", 50e-6), ("50\u00b5s", 50e-6), ("1.5ms", 1.5e-3), ("2s", 2), ("0s", 0), ("9ns", 9e-9)]
)
def test_times(text: str, found: float) -> None:
    assert seconds(text) == pytest.approx(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("50", "unit is missing"),
        ("5m", "unknown unit 'm'"),
        ("3601s", "must be from 0 to 3600 seconds"),
        ("1e308s", "to 3600 seconds"),
    ],
)
def test_what_is_no_time(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        seconds(text)


@pytest.mark.parametrize(("text", "found"), [("7e9", 7 * 10**9), ("7B", 7 * 10**9), ("350M", 350_000_000), ("12", 12)])
def test_counts(text: str, found: int) -> None:
    assert count(text) == found


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0", "must be from 1 to"),
        ("1e16", r"must be from 1 to 1e\+15"),
        ("1.5", "no whole number"),
        ("7 billion", "unknown unit 'billion'"),
    ],
)
def test_what_is_no_count(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        count(text)


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    for parse in (bits_a_second, seconds, count):
        found: float | str
        try:
            found = parse(text)
        except ValueError as error:
            found = str(error)
        assert repr(text) in found if isinstance(found, str) else 0 <= found < float("inf")
