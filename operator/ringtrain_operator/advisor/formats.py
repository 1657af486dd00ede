"""How the codecs write values: sizes and errors, as pure numbers.

The trainer's tests prove that its codecs do the same (tests/trainer/comm/test_advisor.py).
"""

from dataclasses import dataclass

from ringtrain.contract.communication import DEFAULT_BLOCK, DEFAULT_RATE, CommunicationConfig

_HEADER_BYTES = 8
"""Of a message; its size is a multiple of it."""
_ZFP_4_ERROR = 0.2254
_INT4_ERRORS = {32: 0.0969, 128: 0.1173}


@dataclass(frozen=True, slots=True)
class Format:
    """A codec and its settings."""

    name: str
    """As the trainer calls it: zfp-4."""
    block: int
    """Values that are encoded together."""
    block_bytes: int
    """What they become."""
    error: float
    """Of one encoding of independent Gaussian values: norm of what is lost / norm of the values."""
    lossy: bool
    """It costs time, and loses more than 16-bit floats do."""

    @property
    def bits(self) -> float:
        """A value."""
        return 8 * self.block_bytes / self.block

    def message_bytes(self, values: int) -> int:
        """Of one message that holds `values` values."""
        size = _HEADER_BYTES + -(-values // self.block) * self.block_bytes
        return -(-size // _HEADER_BYTES) * _HEADER_BYTES


NONE = Format("none", block=1, block_bytes=4, error=0.0, lossy=False)
BF16 = Format("bf16", block=1, block_bytes=2, error=0.00166, lossy=False)


def zfp(rate: int) -> Format:
    """As the trainer's own kernels decode it, to the middle of what the bits allow: a bit more halves the error."""
    return Format(f"zfp-{rate}", block=64, block_bytes=8 * rate, error=_ZFP_4_ERROR * 2.0 ** (4 - rate), lossy=True)


def int4(block: int, rotate: bool = False) -> Format:
    name = f"int4-{block}" + "-rotated" * rotate
    return Format(name, block=block, block_bytes=2 + block // 2, error=_INT4_ERRORS[block], lossy=True)


def format_of(config: CommunicationConfig) -> Format:
    """What a job's large tensors are written as, once it is warm."""
    match config.codec:
        case "none":
            return NONE
        case "bf16":
            return BF16
        case "zfp":
            return zfp(config.rate or DEFAULT_RATE)
        case "int4":
            return int4(config.block or DEFAULT_BLOCK, bool(config.rotate))
