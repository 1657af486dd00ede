"""NaN and infinities on their way through a lane: they arrive, whatever codec, algorithm and type of gradients."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.comm.codec.codec import Codec, store
from trainer.comm.test_lane import DTYPES, SHAPES, World, by_algorithm, by_codec

NUMEL = 1000


def test_storing_as_float16() -> None:
    """What a codec carried past its range is bounded; what is no number stays none."""
    values = torch.empty(6, dtype=torch.float16)
    store(torch.tensor([1.0, 70000.0, -1e30, torch.inf, -torch.inf, torch.nan]), values)
    assert values[:5].tolist() == [1.0, 65504.0, -65504.0, torch.inf, -torch.inf]
    assert values[5].isnan()


@by_codec
@by_algorithm
@settings(deadline=None, max_examples=20)
@given(
    shape=SHAPES,
    rank=st.integers(0, 7),
    index=st.integers(0, NUMEL - 1),
    bad=st.sampled_from([torch.nan, torch.inf, -torch.inf]),
    dtype=DTYPES,
    feedback=st.booleans(),
)
def test_what_is_not_finite_arrives(
    codec: Codec, algorithm: str, shape: tuple[int, int], rank: int, index: int, bad: float, dtype: torch.dtype,
    feedback: bool,
) -> None:  # fmt: skip
    world = World(*shape, algorithm, codec, NUMEL, 1, dtype, feedback)
    world.outputs[rank % len(world.outputs)][index] = bad
    world.all_reduce(scale=1 / len(world.outputs))
    world.check_same_bits()
    found = world.outputs[0]
    assert not found[index].isfinite()
    if shape[0] == 1 or codec.name in ("none", "bf16"):
        torch.testing.assert_close(found[index], torch.tensor(bad, dtype=dtype), equal_nan=True)
        assert int(found.isfinite().sum()) == len(found) - 1
    for residual in world.residuals:
        assert residual is None or torch.isfinite(residual).all()
