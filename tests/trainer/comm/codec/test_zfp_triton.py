"""The codec for GPUs, against zfpy.

Triton's interpreter takes most of a second for a program, whether it has one block or all that it can have: so examples
are few there, and have many blocks.
"""

import numpy
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.zfp import Zfp
from ringtrain.comm.codec.zfp_format import BLOCK, HIGHEST_RATE, LOWEST_RATE
from ringtrain.comm.codec.zfp_numba import NumbaZfp
from ringtrain.comm.codec.zfp_reference import ReferenceZfp
from trainer.comm.codec.interpreter import DEVICE, HAS_GPU, check_in_interpreter, outside, where_kernels_run
from trainer.comm.codec.zfp_data import every_kind, float_values, same_bits

pytest.importorskip("triton", reason="triton is not installed: see the extra gpu")
from ringtrain.comm.codec.zfp_triton import TritonZfp

# Without shrinking, which takes a thousand examples.
few = settings(deadline=None, max_examples=200 if HAS_GPU else 3, phases=[Phase.explicit, Phase.generate])
RATES = st.integers(LOWEST_RATE, HIGHEST_RATE)
PROGRAM = 32 * BLOCK
"""Values that one program works at."""

# The interpreter computes with numpy, which warns of infinities.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
on_a_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")


def gpu(rate: int, *, midpoint: bool = False) -> TritonZfp:
    return TritonZfp(rate, midpoint=midpoint)


def cpu(rate: int, *, midpoint: bool = False) -> NumbaZfp:
    return NumbaZfp(rate, midpoint=midpoint, threads=1)


def device_of(codec: Codec) -> str:
    return DEVICE if isinstance(codec, TritonZfp) else "cpu"


def encoded(codec: Codec, values: Tensor) -> Tensor:
    data = torch.full((codec.encoded_bytes(values.numel()),), 0xA5, dtype=torch.uint8, device=device_of(codec))
    assert codec.encode(values.to(device_of(codec)), data)
    return data.cpu()


def decoded(codec: Codec, data: Tensor, numel: int, dtype: torch.dtype = torch.float32) -> Tensor:
    values = torch.full((numel,), 7.0, dtype=dtype, device=device_of(codec))
    codec.decode(data.to(device_of(codec)), values)
    return values.cpu()


def gaussian(numel: int, seed: int = 0) -> Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(seed))


def random_bytes(bits: int, ones: float, seed: int) -> Tensor:
    """With that share of ones."""
    drawn = numpy.random.default_rng(seed).random(bits) < ones
    return torch.from_numpy(numpy.packbits(drawn, bitorder="little"))


@outside
@pytest.mark.timeout(900)
def test_all_in_the_interpreter() -> None:
    check_in_interpreter(__file__)


@where_kernels_run
@pytest.mark.parametrize("rate", range(LOWEST_RATE, HIGHEST_RATE + 1) if HAS_GPU else [3, 4, 5, 8, 16])
def test_rates(rate: int) -> None:
    values = every_kind(31, rate)
    data = encoded(ReferenceZfp(rate), values)
    assert torch.equal(encoded(gpu(rate), values), data)
    assert same_bits(decoded(gpu(rate), data, len(values)), decoded(ReferenceZfp(rate), data, len(values)))


@where_kernels_run
@few
@given(values=float_values(), rate=RATES)
def test_bytes_and_values_are_those_of_zfpy(values: Tensor, rate: int) -> None:
    data = encoded(ReferenceZfp(rate), values)
    assert torch.equal(encoded(gpu(rate), values), data)
    assert same_bits(decoded(gpu(rate), data, len(values)), decoded(ReferenceZfp(rate), data, len(values)))


@where_kernels_run
@few
@given(rate=RATES, ones=st.sampled_from([0.02, 0.1, 0.5, 0.9, 0.98]), seed=st.integers(0, 2**32 - 1))
def test_any_bytes_are_decoded_as_by_zfpy(rate: int, ones: float, seed: int) -> None:
    stream = random_bytes(PROGRAM * rate, ones, seed)
    assert same_bits(decoded(gpu(rate), stream, PROGRAM), decoded(ReferenceZfp(rate), stream, PROGRAM))


@where_kernels_run
@pytest.mark.parametrize("rate", [3, 4])
def test_the_midpoint_is_that_of_the_cpu(rate: int) -> None:
    values = torch.cat([gaussian(64 * (64 if HAS_GPU else 1)), every_kind(31, 5)])
    data = encoded(ReferenceZfp(rate), values)
    wanted = decoded(cpu(rate, midpoint=True), data, len(values))
    assert same_bits(decoded(gpu(rate, midpoint=True), data, len(values)), wanted)


@where_kernels_run
@pytest.mark.parametrize(
    "numel", [1, 33, PROGRAM + 20, *([15, 16, 17, 32, 47, 48, 49, 63, 65, PROGRAM - 20] if HAS_GPU else [])]
)
def test_partial_blocks(numel: int) -> None:
    values = gaussian(numel)
    data = encoded(ReferenceZfp(4), values)
    assert torch.equal(encoded(gpu(4), values), data)
    assert same_bits(decoded(gpu(4), data, numel), decoded(ReferenceZfp(4), data, numel))


@where_kernels_run
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rate", [4, 9] if HAS_GPU else [4])
def test_16_bit_values_are_read_as_they_are(dtype: torch.dtype, rate: int) -> None:
    values = every_kind(31, 7)[:-5].clamp(-65504, 65504).to(dtype)
    data = encoded(gpu(rate), values)
    assert torch.equal(data, encoded(ReferenceZfp(rate), values.float()))
    wanted = decoded(ReferenceZfp(rate), data, len(values), dtype)
    assert same_bits(decoded(gpu(rate), data, len(values), dtype), wanted)


@where_kernels_run
@pytest.mark.parametrize("midpoint", [False, True])
def test_decode_add_is_decode_and_add(midpoint: bool) -> None:
    values = every_kind(31, 3)[:-5]
    codec, data, sums = gpu(5, midpoint=midpoint), encoded(cpu(5), values), gaussian(len(values)).to(DEVICE)
    wanted = sums.cpu() + decoded(cpu(5, midpoint=midpoint), data, len(values))
    codec.decode_add(data.to(DEVICE), sums)
    assert same_bits(sums.cpu(), wanted)


@where_kernels_run
@pytest.mark.parametrize(
    ("dtype", "midpoint", "keep", "numel"),
    [
        (torch.float32, True, 0.3, PROGRAM - 100),
        (torch.bfloat16, False, 1.0, 100),
    ],
)
def test_the_residual_is_that_of_the_cpu(dtype: torch.dtype, midpoint: bool, keep: float, numel: int) -> None:
    values, residual = gaussian(numel).to(dtype), gaussian(numel, 1)
    wanted_data, wanted = torch.zeros(cpu(4).encoded_bytes(numel), dtype=torch.uint8), residual.clone()
    assert cpu(4, midpoint=midpoint).encode_with_residual(values, wanted, keep, wanted_data)
    data, found = torch.zeros_like(wanted_data, device=DEVICE), residual.to(DEVICE, copy=True)
    assert gpu(4, midpoint=midpoint).encode_with_residual(values.to(DEVICE), found, keep, data)
    assert torch.equal(data.cpu(), wanted_data)
    assert same_bits(found.cpu(), wanted)


@where_kernels_run
@pytest.mark.parametrize(
    ("dtype", "numel", "place", "bad"),
    [
        (torch.float32, PROGRAM + 70, PROGRAM + 69, float("nan")),
        (torch.float16, 70, 30, -float("inf")),
    ],
)
def test_refuses_what_is_not_finite(dtype: torch.dtype, numel: int, place: int, bad: float) -> None:
    values, residual = gaussian(numel).to(dtype), gaussian(numel, 1).to(DEVICE)
    values[place] = bad
    data = torch.zeros(gpu(4).encoded_bytes(numel), dtype=torch.uint8, device=DEVICE)
    assert not gpu(4).encode(values.to(DEVICE), data)
    assert not gpu(4).encode_with_residual(values.to(DEVICE), residual, 1.0, data)
    assert not residual.any()


@where_kernels_run
def test_refuses_a_sum_that_is_not_finite() -> None:
    values, residual = torch.full((64,), 3e38, device=DEVICE), torch.full((64,), 3e38, device=DEVICE)
    data = torch.zeros(gpu(4).encoded_bytes(64), dtype=torch.uint8, device=DEVICE)
    assert not gpu(4).encode_with_residual(values, residual, 1.0, data)
    assert not residual.any()


@where_kernels_run
def test_the_midpoint_of_nothing_is_nothing() -> None:
    data = encoded(gpu(4), torch.zeros(70))
    assert not decoded(gpu(4, midpoint=True), data, 70).any()


@where_kernels_run
def test_what_passes_float16_is_its_greatest() -> None:
    data = encoded(ReferenceZfp(8), torch.full((64,), -1e6))
    assert (decoded(gpu(8), data, 64, torch.float16) == -65504).all()


@where_kernels_run
def test_slices_of_memory_are_left_alone() -> None:
    values, codec = gaussian(300).to(DEVICE), gpu(5)
    memory = torch.full((codec.encoded_bytes(100) + 16,), 9, dtype=torch.uint8, device=DEVICE)
    data = memory[8:-8]
    assert codec.encode(values[3:103], data)  # Values of no alignment.
    assert torch.equal(data.cpu(), encoded(ReferenceZfp(5), values[3:103].cpu()))
    assert (memory[:8] == 9).all()
    assert (memory[-8:] == 9).all()
    target = torch.full((110,), 9.0, device=DEVICE)
    codec.decode(data, target[5:105])
    assert (target[:5] == 9).all()
    assert (target[105:] == 9).all()


@where_kernels_run
def test_a_message_carries_its_own_mark() -> None:
    values, residual, codec = gaussian(100).to(DEVICE), torch.zeros(100, device=DEVICE), gpu(4)
    message = torch.full((8 + codec.encoded_bytes(100),), 9, dtype=torch.uint8, device=DEVICE)
    mark, data = message[:4].view(torch.int32), message[8:]
    codec.queue_encode(values, data, mark)
    assert message[:8].tolist() == [0, 0, 0, 0, 9, 9, 9, 9]
    assert torch.equal(data.cpu(), encoded(ReferenceZfp(4), values.cpu()))
    values[50] = torch.nan
    codec.queue_encode(values, data, mark)
    assert message[:4].tolist() == [1, 0, 0, 0]
    codec.queue_encode_with_residual(values.zero_(), residual, 1.0, data, mark)
    assert message[:4].tolist() == [0, 0, 0, 0]


@where_kernels_run
def test_nothing_is_encoded_as_nothing() -> None:
    values, data = torch.zeros(0, device=DEVICE), torch.zeros(0, dtype=torch.uint8, device=DEVICE)
    assert gpu(4).encode(values, data)
    assert gpu(4).encode_with_residual(values, torch.zeros_like(values), 1.0, data)
    gpu(4).decode_add(data, values)


def test_memory_that_does_not_fit_is_refused() -> None:
    codec, values = gpu(4), gaussian(100)
    data = torch.zeros(codec.encoded_bytes(100) + 8, dtype=torch.uint8)
    mark = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"100 values by zfp-4 are a contiguous torch.uint8 \(64,\)"):
        codec.encode(values, data)
    with pytest.raises(ValueError, match=r"encoded values in torch.int8"):
        codec.decode(data[8:].view(torch.int8), values)
    with pytest.raises(ValueError, match=r"encoded values at address \d+: on a GPU they must begin at a multiple of 8"):
        codec.encode(values, data[4:-4])
    with pytest.raises(ValueError, match="contiguous 1-D float32, bfloat16 or float16"):
        codec.encode(gaussian(200)[::2], data[8:])
    with pytest.raises(ValueError, match="contiguous 1-D float32, bfloat16 or float16"):
        codec.decode(data[8:], values.double())
    with pytest.raises(ValueError, match=r"sums in torch.float16 \(100,\): they must be torch.float32"):
        codec.decode_add(data[8:], values.half())
    with pytest.raises(ValueError, match=r"sums in torch.float32 \(99,\): they must be torch.float32 \(100,\)"):
        codec.encode_with_residual(values, values[1:].clone(), 1.0, data[8:])
    with pytest.raises(ValueError, match="encoded values on meta, and values on cpu: zfp takes both on one device"):
        codec.encode(values, data[8:].to("meta"))
    with pytest.raises(ValueError, match="sums on meta, and values on cpu"):
        codec.encode_with_residual(values, values.to("meta"), 1.0, data[8:])
    with pytest.raises(ValueError, match="a mark on meta, and values on cpu"):
        codec.queue_encode(values, data[8:], mark.to("meta"))
    with pytest.raises(ValueError, match=r"a mark in torch.int64 \(1,\): it must be one torch.int32"):
        codec.queue_encode(values, data[8:], mark.long())
    with pytest.raises(ValueError, match="a rate of 17 bits a value: zfp serves 3 to 16"):
        gpu(17)


@on_a_gpu
@pytest.mark.parametrize("rate", range(LOWEST_RATE, HIGHEST_RATE + 1))
def test_large_tensors_on_a_stream_beside_others(rate: int) -> None:
    numel = (1 << 20) + 21
    values, codec = gaussian(numel), Zfp(rate)
    data = encoded(ReferenceZfp(rate), values)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        given = values.to("cuda")
        found = torch.empty(codec.encoded_bytes(numel), dtype=torch.uint8, device="cuda")
        assert codec.encode(given, found)
        target = torch.empty_like(given)
        codec.decode(found, target)
        assert torch.equal(found.cpu(), data)
        assert same_bits(target.cpu(), decoded(ReferenceZfp(rate), data, numel))
