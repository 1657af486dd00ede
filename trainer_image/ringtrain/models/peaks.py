"""What devices could do at best: pure."""

_DENSE_16_BIT: tuple[tuple[str, float], ...] = (
    ("B200", 2250e12),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("V100", 125e12),
    ("T4", 65e12),
)
"""Operations per second of the tensor cores on dense 16-bit numbers, from NVIDIA's data sheets (halved where they give
the number for sparse ones). The first name that a device's own contains is its: so longer ones come first."""


def peak_flops(device: str, precision: str) -> float | None:
    """Of a device by the name that torch gives it; None where it is unknown, and in fp32, which takes other units."""
    if precision == "fp32":
        return None
    return next((peak for name, peak in _DENSE_16_BIT if name in device), None)
