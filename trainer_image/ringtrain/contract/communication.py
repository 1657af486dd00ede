"""How gradients are summed over all ranks: `spec.communication` of a TrainingJob."""

from typing import Literal

from pydantic import Field, model_validator

from ringtrain.contract.model import ContractModel

Algorithm = Literal["ring", "direct"]

DEFAULT_RATE = 5
DEFAULT_BLOCK: Literal[128] = 128
BUCKET_MEBIBYTES = (0.001, 4096.0)
"""The least and the greatest bucketMiB. Smaller buckets would be all headers."""


class CommunicationConfig(ContractModel):
    """Gradients are summed in full precision inside a machine, and encoded between machines."""

    intra: Literal["auto", "nccl", "gloo"] = "auto"
    """Inside a machine. `auto`: nccl on cuda, gloo on cpu; neither serves the other device."""
    inter: Literal["gloo", "mpi"] = "gloo"
    """Between machines. `mpi` needs mpi4py and an MPI library in the image. It cannot lose a peer and live: when a rank
    is lost, all ranks end and the job restarts whole from its newest checkpoint."""
    algorithm: Literal["auto", "ring", "direct"] = "auto"
    """Between machines. `ring`: a value is encoded once for each machine, so noise grows with their number. `direct`:
    twice, whatever their number, but everybody talks to everybody. `auto`: direct for codecs zfp and int4, ring for
    none and bf16, which lose next to nothing and were no slower by it when measured."""
    codec: Literal["none", "bf16", "zfp", "int4"] = "zfp"
    """How values are written between machines. `none`: as float32. `zfp`: `rate` bits a value. `int4`: 4 bits a value
    and a scale for each `block`."""
    rate: int | None = Field(default=None, ge=3, le=16)
    """Bits a value of codec zfp; 5 when absent: with fewer, the loss of a model was seen to rise, by 0.3 % with 4."""
    block: Literal[32, 128] | None = None
    """Values that share a scale in codec int4; 128 when absent."""
    rotate: bool | None = None
    """Codec int4 spreads outliers over their block first, by a Hadamard rotation; false when absent."""
    error_feedback: Literal["none", "plain", "damped"] | None = None
    """What becomes of what codecs zfp and int4 lose. `none`: it is lost. `plain`: it is added to the same values of the
    next round. `damped`: a moving average of it is. `none` when absent."""
    warmup_rounds: int = Field(default=50, ge=0)
    """The first rounds of training send bf16 where codec is zfp or int4: early gradients forgive less."""
    bucket_mebibytes: float = Field(default=4.0, ge=BUCKET_MEBIBYTES[0], le=BUCKET_MEBIBYTES[1], alias="bucketMiB")
    """Size of a gradient bucket, in units of 2**20 bytes."""
    overlap: bool = True
    """Buckets are sent while the backward pass still runs; off: after it."""
    verify: bool = False
    """After every round all ranks compare a checksum of their summed gradients; a difference ends the job's attempt."""

    @model_validator(mode="after")
    def _fits_together(self) -> "CommunicationConfig":
        if self.codec in ("none", "bf16") and self.error_feedback not in (None, "none"):
            raise ValueError(
                f"codec {self.codec} loses too little to feed back: remove errorFeedback, or set codec to zfp or int4"
            )
        if self.codec != "zfp" and self.rate is not None:
            raise ValueError(f"rate is of codec zfp only, and codec is {self.codec}: remove rate")
        for field in ("block", "rotate"):
            if self.codec != "int4" and getattr(self, field) is not None:
                raise ValueError(f"{field} is of codec int4 only, and codec is {self.codec}: remove {field}")
        return self

    @property
    def chosen_algorithm(self) -> Algorithm:
        """What `algorithm` means."""
        if self.algorithm != "auto":
            return self.algorithm
        return "direct" if self.codec in ("zfp", "int4") else "ring"
