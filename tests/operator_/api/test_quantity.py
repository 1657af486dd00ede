from fractions import Fraction
from typing import Any

import pytest

from ringtrain_operator.api.quantity import quantity, quantity_text


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", Fraction(0)),
        ("500m", Fraction(1, 2)),
        ("2", Fraction(2)),
        (".5", Fraction(1, 2)),
        ("3.", Fraction(3)),
        ("1.5Gi", Fraction(3, 2) * 2**30),
        ("16Gi", Fraction(2**34)),
        ("2E", Fraction(2 * 10**18)),
        ("2E3", Fraction(2000)),
        ("25e-1", Fraction(5, 2)),
        ("7n", Fraction(7, 10**9)),
    ],
)
def test_amount(text: str, amount: Fraction) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize(
    "value",
    ["", " 1", "1 ", "-1", "+1", "1GB", "1gi", "1e", "1e100", "0x1", "1\n", "٣", "1" * 33, -1, True, None, [], 0.5],
)
def test_no_quantity(value: Any) -> None:
    with pytest.raises(ValueError, match="must be a quantity"):
        quantity_text(value)
    if isinstance(value, str):
        with pytest.raises(ValueError, match="not a quantity"):
            quantity(value)


def test_fraction_is_to_be_quoted() -> None:
    with pytest.raises(ValueError, match=r'as "0\.5"'):
        quantity_text(0.5)
