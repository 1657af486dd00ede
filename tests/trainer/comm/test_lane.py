"""The hybrid all-reduce, all ranks in this process: every codec, algorithm and shape of the world."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.int4 import Int4
from ringtrain.comm.codec.plain import bf16, none
from ringtrain.comm.codec.zfp import Zfp
from ringtrain.comm.collectives.message import Messages
from ringtrain.comm.errors import Abandoned
from ringtrain.comm.intra import Alone, OverTransport
from ringtrain.comm.lane import ALGORITHMS, Lane
from ringtrain.comm.meter import LaneTraffic, ring_bytes
from ringtrain.comm.segments import Cut
from ringtrain.comm.transport.memory import memory_transports
from trainer.comm.members import together

CODECS = (none(), bf16(), Int4(128, rotate=False), Int4(32, rotate=True), Zfp(3), Zfp(4), Zfp(8))
SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 4)).filter(lambda shape: 2 <= shape[0] * shape[1] <= 8)
LENGTHS = st.one_of(st.sampled_from([0, 1, 63, 64, 65, 127, 1009]), st.integers(0, 3000))
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
by_algorithm = pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
by_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


def lanes(machines: int, processes: int, algorithm: str) -> list[Lane]:
    """By rank."""
    between = [memory_transports(machines) for _ in range(processes)]
    inside = [memory_transports(processes) for _ in range(machines)]
    return [
        Lane(
            OverTransport(inside[machine][local]) if processes > 1 else Alone(),
            between[local][machine] if machines > 1 else None,
            algorithm,
        )
        for machine in range(machines)
        for local in range(processes)
    ]


class World:
    """Gradients of every rank, and what their all-reduce made of them."""

    def __init__(
        self, machines: int, processes: int, algorithm: str, codec: Codec, numel: int, seed: int,
        dtype: torch.dtype = torch.float32, feedback: bool = False,
    ) -> None:  # fmt: skip
        size = machines * processes
        self.numel = numel
        self.lanes = lanes(machines, processes, algorithm)
        self.cut = Cut(machines, processes, codec.block)
        generator = torch.Generator().manual_seed(seed)
        padded = self.cut.padded(numel)
        self.inputs = [torch.zeros(padded, dtype=dtype) for _ in range(size)]
        for values in self.inputs:
            values[:numel] = torch.randn(numel, generator=generator).to(dtype)
        self.outputs = [values.clone() for values in self.inputs]
        self.residuals = [torch.zeros(padded // processes) if feedback else None for _ in range(size)]
        self.codec = codec

    def all_reduce(self, scale: float = 1.0) -> list[LaneTraffic]:
        def body(rank: int) -> LaneTraffic:
            messages = Messages(self.codec, self.residuals[rank], 1.0)
            return self.lanes[rank].all_reduce(self.outputs[rank], scale, messages)

        return together([partial(body, rank) for rank in range(len(self.lanes))])

    @property
    def total(self) -> Tensor:
        return torch.stack([values.double() for values in self.inputs]).sum(0)

    def check_same_bits(self) -> None:
        for values in self.outputs:
            assert torch.equal(values.view(torch.uint8), self.outputs[0].view(torch.uint8))


@by_codec
@by_algorithm
@settings(deadline=None, max_examples=10)
@given(shape=SHAPES, numel=LENGTHS, dtype=DTYPES, seed=st.integers(0, 99))
def test_all_ranks_end_with_the_same_bits(
    codec: Codec, algorithm: str, shape: tuple[int, int], numel: int, dtype: torch.dtype, seed: int
) -> None:
    world = World(*shape, algorithm, codec, numel, seed, dtype)
    world.all_reduce(scale=0.5)
    world.check_same_bits()
    if codec.name == "none" or shape[0] == 1:
        tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.02, torch.float16: 0.002}[dtype]
        assert torch.allclose(world.outputs[0].double(), 0.5 * world.total, rtol=tolerance, atol=tolerance)


@by_codec
@by_algorithm
@settings(deadline=None, max_examples=10)
@given(shape=SHAPES, numel=LENGTHS, seed=st.integers(0, 99))
def test_residuals_are_all_that_was_lost(
    codec: Codec, algorithm: str, shape: tuple[int, int], numel: int, seed: int
) -> None:
    world = World(*shape, algorithm, codec, numel, seed, feedback=True)
    world.all_reduce()
    machines, processes = shape
    # By place in the machine: each place has its own part of the values.
    lost = torch.zeros_like(world.total).view(processes, -1)
    for rank, residual in enumerate(world.residuals):
        assert residual is not None
        lost[rank % processes] += residual.double()
    assert torch.allclose(world.outputs[0].double() + lost.view(-1), world.total, atol=1e-4)
    # The next round adds them: nothing is lost for good.
    after = sum(float(residual.abs().sum()) for residual in world.residuals if residual is not None)
    assert machines > 1 or after == 0


@pytest.mark.parametrize(("name", "bound"), [("bf16", 0.01), ("int4-128", 0.35), ("zfp-4", 0.85), ("zfp-8", 0.06)])
@by_algorithm
@pytest.mark.parametrize("machines", [2, 4, 8])
def test_error_of_the_sum(name: str, bound: float, algorithm: str, machines: int) -> None:
    codec = next(codec for codec in (*CODECS, Int4(128, rotate=False)) if codec.name == name)
    world = World(machines, 1, algorithm, codec, 8192, 7)
    world.all_reduce()
    error = float((world.outputs[0].double() - world.total).norm() / world.total.norm())
    assert error <= bound
    if algorithm == "direct":
        assert error <= bound * 0.62  # Encoded twice, not once for every machine.


@by_codec
@by_algorithm
@settings(deadline=None, max_examples=10)
@given(
    shape=SHAPES.filter(lambda shape: shape[0] > 1),
    rank=st.integers(0, 7),
    where=st.floats(0, 1, exclude_max=True),
    bad=st.sampled_from([torch.nan, torch.inf, -torch.inf]),
    feedback=st.booleans(),
)
def test_what_is_not_finite_reaches_all_ranks(
    codec: Codec, algorithm: str, shape: tuple[int, int], rank: int, where: float, bad: float, feedback: bool
) -> None:
    world = World(*shape, algorithm, codec, 1000, 1, feedback=feedback)
    index = int(where * 1000)
    world.outputs[rank % len(world.outputs)][index] = bad
    world.all_reduce()
    world.check_same_bits()
    assert not torch.isfinite(world.outputs[0][index])
    for residual in world.residuals:
        assert residual is None or torch.isfinite(residual).all()


@by_algorithm
@pytest.mark.parametrize("codec", [none(), Zfp(4)], ids=lambda codec: codec.name)
def test_traffic(algorithm: str, codec: Codec) -> None:
    machines, processes, numel = 4, 2, 64 * 8 * 40
    world = World(machines, processes, algorithm, codec, numel, 1)
    for traffic in world.all_reduce():
        assert traffic.intra.raw_bytes == traffic.intra.sent_bytes == ring_bytes(4 * numel, processes)
        assert traffic.inter.raw_bytes == ring_bytes(4 * numel // processes, machines)
        headers = 2 * (machines - 1) * 8
        assert traffic.inter.sent_bytes == traffic.inter.raw_bytes * codec.encoded_bytes(64) // 256 + headers
        assert traffic.inter.codec_seconds > 0
        assert traffic.inter.wire_seconds > 0


def test_one_that_is_abandoned_ends() -> None:
    first, _ = lanes(2, 1, "ring")
    first.abandon()
    with pytest.raises(Abandoned):
        first.all_reduce(torch.zeros(128), 1.0, Messages(none(), None, 0.0))
