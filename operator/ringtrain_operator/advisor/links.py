"""Amounts as people write them: 25Gbit, 200GB, 50us, 7B; none that times could not be computed from."""

import re

_AMOUNT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z\u00b5\u03bc/]*)\s*")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATES = {f"{prefix}bit": factor for prefix, factor in _PREFIXES.items()} | {
    f"{prefix}B": 8 * factor for prefix, factor in _PREFIXES.items()
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}
_COUNTS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def bits_a_second(text: str) -> float:
    """`25Gbit`, `25Gbit/s`, `3.1GB`: a prefix of k, M, G, T (powers of 1000). Raises ValueError, as all here do."""
    wanted = "a speed such as 25Gbit, 800Mbit or 3GB (bytes), a second"
    return _parse(text, _RATES, wanted, 1, 1e18, "bits a second", suffix="/s")


def seconds(text: str) -> float:
    """`50us`, `1.5ms`, `2s`."""
    return _parse(text, _SECONDS, "a time such as 50us, 1.5ms or 2s", 0, 3600, "seconds")


def count(text: str) -> int:
    """`7e9`, `7B`, `350M`, `834432`."""
    found = _parse(text, _COUNTS, "a number such as 7e9, 7B or 350M", 1, 1e15)
    if found != int(found):
        raise ValueError(f"{text!r} is no whole number")
    return int(found)


def _parse(
    text: str, units: dict[str, float], wanted: str, least: float, most: float, name: str = "", *, suffix: str = ""
) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {wanted}")
    number, unit = float(match[1]), match[2].removesuffix(suffix)
    if unit not in units:
        raise ValueError(f"{text!r}: {f'unknown unit {match[2]!r}' if unit else 'the unit is missing'}: write {wanted}")
    found = number * units[unit]
    if not least <= found <= most:
        raise ValueError(f"{text!r}: must be from {least:g} to {most:g} {name}".rstrip())
    return found
