"""From what a user asks for to codecs."""

from dataclasses import dataclass

import torch

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.int4 import Int4
from ringtrain.comm.codec.plain import bf16, none
from ringtrain.comm.codec.zfp import Zfp, has_numba, warm
from ringtrain.contract.communication import DEFAULT_BLOCK, DEFAULT_RATE, CommunicationConfig

DAMPED = 0.5
"""How much of what is lost now goes into the moving average that `damped` error feedback adds."""


@dataclass(frozen=True, slots=True)
class Codecs:
    main: Codec
    """For large tensors, after the warm-up."""
    warm_up: Codec
    """For large tensors in the first rounds."""
    exact: Codec
    """For small tensors."""
    keep: float | None
    """Of error feedback, for `Codec.encode_with_residual`; None without it."""

    @property
    def block(self) -> int:
        """Segments of large tensors are cut for every round alike."""
        return max(self.main.block, self.warm_up.block)


def build_codecs(config: CommunicationConfig) -> Codecs:
    main: Codec
    match config.codec:
        case "zfp":
            main = Zfp(config.rate or DEFAULT_RATE, midpoint=has_numba())
        case "int4":
            main = Int4(config.block or DEFAULT_BLOCK, bool(config.rotate))
        case "bf16":
            main = bf16()
        case "none":
            main = none()
    keep = {"none": None, "plain": 1.0, "damped": DAMPED}[config.error_feedback or "none"]
    return Codecs(main, none() if config.codec == "none" else bf16(), none(), keep)


def compile_ahead() -> None:
    """Compiles what all codecs run, or reads it from disk: seconds that the first round would take."""
    warm(torch.float32)  # Parts are summed in no other type.
