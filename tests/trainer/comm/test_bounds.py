"""Sums stay within what their codec may lose, whatever the values."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.int4 import Int4
from ringtrain.comm.codec.plain import bf16, none
from ringtrain.comm.codec.zfp import Zfp
from trainer.comm.test_lane import LENGTHS, SHAPES, World, by_algorithm

BLOCK = 128
"""A multiple of every codec's."""
BOUNDS: list[tuple[Codec, float]] = [
    (none(), 2.0**-22), (bf16(), 2.0**-8), (Int4(128, rotate=False), 0.075), (Int4(32, rotate=False), 0.075),
    (Zfp(4), 2.0), (Zfp(8), 0.1), (Zfp(16), 4e-4),
]  # fmt: skip
"""The most that one encoding changes a value, of the greatest in its block."""

KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "Gaussian": lambda values: values,
    "heavy tails": lambda values: values**9,
    "mostly zero": lambda values: values * (values > 1.5),
    "signs": torch.sign,
    "shifted": lambda values: values + 50,
    "of all magnitudes": lambda values: values * torch.exp2((values * 997).frac() * 30),
}


@pytest.mark.parametrize(("codec", "bound"), BOUNDS, ids=lambda value: getattr(value, "name", ""))
@by_algorithm
@settings(deadline=None, max_examples=25)
@given(
    shape=SHAPES,
    numel=LENGTHS,
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(sorted(KINDS)),
    scale=st.sampled_from([1e-9, 1.0, 1e6]),
)
def test_error_of_a_sum(
    codec: Codec, bound: float, algorithm: str, shape: tuple[int, int], numel: int, seed: int, kind: str, scale: float
) -> None:
    world = World(*shape, algorithm, codec, numel, seed)
    for values, output in zip(world.inputs, world.outputs, strict=True):
        values.copy_(KINDS[kind](values) * scale)
        values[numel:] = 0
        output.copy_(values)
    world.all_reduce()
    world.check_same_bits()
    machines, processes = shape
    encodings = 0 if machines == 1 else machines if algorithm == "ring" else 2
    # No partial sum is greater than the greatest values together, and what was lost before.
    greatest = sum(blocks(values.abs()).amax(1, keepdim=True) for values in world.inputs)
    assert isinstance(greatest, Tensor)
    wrong = blocks((world.outputs[0].double() - world.total).abs())
    rounding = (machines + processes) * 2.0**-22
    assert (wrong <= greatest * ((1 + bound) ** encodings - 1 + rounding)).all()


def blocks(values: Tensor) -> Tensor:
    return torch.nn.functional.pad(values, (0, -len(values) % BLOCK)).view(-1, BLOCK)
