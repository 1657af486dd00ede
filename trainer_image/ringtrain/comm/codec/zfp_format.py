"""What ZFP's fixed-rate format fixes: sizes, rates, and the order of a block's coefficients."""

BLOCK = 64
"""Values in a block: 4 x 4 x 4 of an array of n/16 x 4 x 4, so 64 consecutive ones."""
ROW = 16
"""Values in a row: an array's last block may have fewer rows than 4, and a row has no gaps."""
LOWEST_RATE, HIGHEST_RATE = 3, 16
"""Below its lowest rate, zfpy writes past the end of its buffer."""

_PLACES = """
    000 100 010 001 011 101 110 200 020 002 111 210 201 021 120 102 012 300 030 003 211 121
    112 022 202 220 310 301 031 130 103 013 122 212 221 311 131 113 320 302 032 230 203 023
    222 321 312 132 231 213 123 033 303 330 322 232 223 133 313 331 233 323 332 333
"""
SEQUENCY = [int(place[0]) + 4 * int(place[1]) + 16 * int(place[2]) for place in _PLACES.split()]
"""Where in a block the coefficients stand that are written first, second and so on: by frequency, lowest first."""


def check_rate(rate: int) -> None:
    """Raises ValueError for a rate that ZFP cannot serve."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise ValueError(f"a rate of {rate} bits a value: zfp serves {LOWEST_RATE} to {HIGHEST_RATE}")


def encoded_bytes(numel: int, rate: int) -> int:
    """A block takes `rate` words of 64 bits."""
    return -(-numel // BLOCK) * 8 * rate
