import pytest
import torch

from ringtrain.comm.bucket_sum import BucketSum, load_residuals, rescale_residuals, residuals
from ringtrain.comm.buckets import Bucket, Slice
from ringtrain.comm.codec.build import build_codecs
from ringtrain.comm.topology import Topology
from ringtrain.contract.communication import CommunicationConfig

FEEDBACK = CommunicationConfig(codec="zfp", error_feedback="plain")


def sums() -> list[BucketSum]:
    """Of two machines: a matrix, then a vector."""
    topology, codecs = Topology(((0,), (1,))), build_codecs(FEEDBACK)
    buckets = [
        Bucket(torch.float32, exact=exact, slices=(Slice("it", 0, numel),))
        for exact, numel in ((False, 600_000), (True, 9))
    ]
    return [BucketSum(bucket, topology, codecs, torch.device("cpu")) for bucket in buckets]


def test_only_what_is_encoded_has_residuals() -> None:
    both = sums()
    assert list(residuals(both)) == ["0.0", "0.1"]
    assert sum(len(residual) for residual in residuals(both).values()) == len(both[0].buffer)


@pytest.mark.parametrize(("factor", "rescaled"), [(4.0, 4.0), (0.5, 0.5), (0, 0.0)])
def test_residuals_are_rescaled(factor: float, rescaled: float) -> None:
    both = sums()
    for residual in residuals(both).values():
        residual.fill_(1)
    rescale_residuals(both, factor)
    assert all((residual == rescaled).all() for residual in residuals(both).values())


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_factor_of_zero_forgets_whatever_it_is(value: float) -> None:
    both = sums()
    residuals(both)["0.1"].fill_(value)
    rescale_residuals(both, 0)
    assert not any(residual.any() for residual in residuals(both).values())


def test_residuals_of_another_layout_are_not_taken() -> None:
    both = sums()
    saved = {name: torch.ones_like(residual) for name, residual in residuals(both).items()}
    for other in ({}, {**saved, "0.2": torch.ones(1)}, {**saved, "0.1": torch.ones(7)}):
        assert not load_residuals(both, other)
        assert not any(residual.any() for residual in residuals(both).values())
    assert load_residuals(both, saved)
    assert all((residual == 1).all() for residual in residuals(both).values())
