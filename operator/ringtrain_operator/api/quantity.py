"""Kubernetes resource quantities: 500m, 2, 16Gi."""

import re
from fractions import Fraction
from typing import Any

PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""As Kubernetes has it, without negative amounts and exponents above 99."""
MAXIMUM_LENGTH = 32

_PATTERN = re.compile(PATTERN, re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def quantity_text(value: Any) -> str:
    """The quantity `value` as text: whole numbers are accepted too. Raises ValueError when it is none."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and _match(text):
        return text
    hint = f': write it in quotes, as "{value}"' if isinstance(value, float) else ""
    raise ValueError(f"must be a quantity that is not negative, such as 500m, 2 or 16Gi{hint}")


def quantity(text: str) -> Fraction:
    """The exact amount. Raises ValueError when `text` is no quantity."""
    match = _match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    number, suffix = Fraction(match[1].rstrip(".")), match[3] or ""
    if suffix in _BINARY:
        return number * Fraction(2 ** _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    return number * Fraction(f"1e{exponent}")


def _match(text: str) -> re.Match[str] | None:
    return _PATTERN.fullmatch(text) if len(text) <= MAXIMUM_LENGTH else None
