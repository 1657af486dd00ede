"""The check of all machines before training: what is asked of it."""

from pydantic import Field

from ringtrain.contract.model import ContractModel


class Preflight(ContractModel):
    """When a machine is unfit. Every rank multiplies matrices whose product is known, and exchanges data with ranks on
    other machines. One that gets a wrong result, does not come to an end within timeouts.checking, or is too slow, ends
    its pod with exit code 86; the pod is replaced, and its node is excluded at once, for windowSeconds and within
    maxNodes of nodeExclusion (their defaults where that is absent)."""

    slower_than: float = Field(default=3, gt=1)
    """A rank is too slow when the product, or the exchange with each of its peers, takes it this many times as long as
    the median of all ranks."""
