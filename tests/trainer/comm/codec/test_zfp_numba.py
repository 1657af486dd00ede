"""The fast codec, against zfpy."""

from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ringtrain.comm.codec.zfp_format import BLOCK, HIGHEST_RATE, LOWEST_RATE
from ringtrain.comm.codec.zfp_numba import NumbaZfp
from ringtrain.comm.codec.zfp_reference import ReferenceZfp
from trainer.comm.codec.zfp_data import float_values, same_bits

RATES = st.integers(LOWEST_RATE, HIGHEST_RATE)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LARGE = 64 * 1024 + 21  # Enough that several threads get a share.


def fast(rate: int, *, midpoint: bool = False, threads: int = 1) -> NumbaZfp:
    return NumbaZfp(rate, midpoint=midpoint, threads=threads)


def encoded(codec: NumbaZfp | ReferenceZfp, values: Tensor) -> Tensor:
    data = torch.full((codec.encoded_bytes(values.numel()),), 0xA5, dtype=torch.uint8)
    assert codec.encode(values, data)
    return data


def decoded(codec: NumbaZfp | ReferenceZfp, data: Tensor, numel: int, dtype: torch.dtype = torch.float32) -> Tensor:
    values = torch.full((numel,), 7.0, dtype=dtype)
    codec.decode(data, values)
    return values


def gaussian(numel: int, seed: int = 0) -> Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=600)
@given(values=float_values(), rate=RATES)
def test_its_bytes_are_those_of_zfpy(values: Tensor, rate: int) -> None:
    assert torch.equal(encoded(fast(rate), values), encoded(ReferenceZfp(rate), values))


@settings(deadline=None, max_examples=600)
@given(values=float_values(), rate=RATES)
def test_what_zfpy_encoded_is_decoded_as_by_zfpy(values: Tensor, rate: int) -> None:
    data = encoded(ReferenceZfp(rate), values)
    wanted = decoded(ReferenceZfp(rate), data, values.numel())
    assert same_bits(decoded(fast(rate), data, values.numel()), wanted)


@settings(deadline=None, max_examples=400)
@given(data=st.data(), rate=RATES, blocks=st.integers(1, 5))
def test_any_bytes_are_decoded_as_by_zfpy(data: st.DataObject, rate: int, blocks: int) -> None:
    size = ReferenceZfp(rate).encoded_bytes(blocks * BLOCK)
    stream = torch.frombuffer(bytearray(data.draw(st.binary(min_size=size, max_size=size))), dtype=torch.uint8)
    wanted = decoded(ReferenceZfp(rate), stream, blocks * BLOCK)
    assert same_bits(decoded(fast(rate), stream, blocks * BLOCK), wanted)


@pytest.mark.parametrize("rate", range(LOWEST_RATE, HIGHEST_RATE + 1))
@pytest.mark.parametrize("threads", [1, 3])
def test_large_tensors_at_every_rate(rate: int, threads: int) -> None:
    values, codec = gaussian(LARGE), fast(rate, threads=threads)
    data = encoded(codec, values)
    assert torch.equal(data, encoded(ReferenceZfp(rate), values))
    assert same_bits(decoded(codec, data, LARGE), decoded(ReferenceZfp(rate), data, LARGE))


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)
@given(values=float_values(), rate=RATES)
def test_16_bit_values_are_read_as_they_are(dtype: torch.dtype, values: Tensor, rate: int) -> None:
    values = values.clamp(-65504, 65504).to(dtype)
    data = encoded(fast(rate), values)
    assert torch.equal(data, encoded(ReferenceZfp(rate), values.float()))
    wanted = decoded(ReferenceZfp(rate), data, values.numel(), dtype)
    assert same_bits(decoded(fast(rate), data, values.numel(), dtype), wanted)


@settings(deadline=None)
@given(values=float_values(), rate=RATES, midpoint=st.booleans(), seed=st.integers(0, 99))
def test_decode_add_is_decode_and_add(values: Tensor, rate: int, midpoint: bool, seed: int) -> None:
    codec = fast(rate, midpoint=midpoint)
    data, sums = encoded(codec, values), gaussian(values.numel(), seed)
    wanted = sums + decoded(codec, data, values.numel())
    codec.decode_add(data, sums)
    assert same_bits(sums, wanted)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("midpoint", [False, True])
@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("numel", [1, 100, LARGE])
def test_the_residual_is_what_this_decoder_loses(
    threads: int, dtype: torch.dtype, midpoint: bool, keep: float, numel: int
) -> None:
    codec = fast(4, midpoint=midpoint, threads=threads)
    values, residual = gaussian(numel).to(dtype), gaussian(numel, 1)
    total = values.float() + residual
    data = torch.zeros(codec.encoded_bytes(numel), dtype=torch.uint8)
    old = residual.clone()
    assert codec.encode_with_residual(values, residual, keep, data)
    assert torch.equal(data, encoded(ReferenceZfp(4), total))
    lost = total - decoded(codec, data, numel)
    torch.testing.assert_close(residual, (1 - keep) * old + keep * lost, rtol=1e-6, atol=1e-6)
    if keep == 1:
        assert torch.equal(residual, lost)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("numel", "place"), [(1, 0), (64, 63), (100, 99), (LARGE, 30000), (LARGE, LARGE - 1)])
def test_refuses_what_is_not_finite(threads: int, dtype: torch.dtype, bad: float, numel: int, place: int) -> None:
    codec, values, residual = fast(4, threads=threads), gaussian(numel).to(dtype), gaussian(numel, 1)
    values[place] = bad
    data = torch.zeros(codec.encoded_bytes(numel), dtype=torch.uint8)
    assert not codec.encode(values, data)
    assert not codec.encode_with_residual(values, residual, 1.0, data)
    assert not residual.any()


def test_refuses_a_sum_that_is_not_finite() -> None:
    values, residual = torch.full((64,), 3e38), torch.full((64,), 3e38)
    data = torch.zeros(fast(4).encoded_bytes(64), dtype=torch.uint8)
    assert not fast(4).encode_with_residual(values, residual, 1.0, data)
    assert not residual.any()


@pytest.mark.parametrize("rate", [3, 4, 6, 8])
def test_the_midpoint_is_a_decibel_closer(rate: int) -> None:
    values = gaussian(LARGE)
    data = encoded(fast(rate, midpoint=True), values)
    assert torch.equal(data, encoded(fast(rate), values))
    cut = (decoded(fast(rate), data, LARGE) - values).square().mean()
    middle = (decoded(fast(rate, midpoint=True), data, LARGE) - values).square().mean()
    assert 10 * torch.log10(cut / middle) > 1


def test_the_midpoint_of_nothing_is_nothing() -> None:
    data = encoded(fast(4), torch.zeros(70))
    assert not decoded(fast(4, midpoint=True), data, 70).any()


def test_what_passes_float16_is_its_greatest() -> None:
    values = torch.full((64,), 1e6)
    assert (decoded(fast(8), encoded(fast(8), -values), 64, torch.float16) == -65504).all()


def test_slices_of_memory_are_left_alone() -> None:
    values, codec = gaussian(300), fast(5)
    memory = torch.full((codec.encoded_bytes(100) + 7,), 9, dtype=torch.uint8)
    assert codec.encode(values[3:103], memory[3:-4])  # Of no alignment.
    assert torch.equal(memory[3:-4], encoded(ReferenceZfp(5), values[3:103].clone()))
    assert (memory[:3] == 9).all()
    assert (memory[-4:] == 9).all()
    target = torch.full((110,), 9.0)
    codec.decode(memory[3:-4], target[5:105])
    assert (target[:5] == 9).all()
    assert (target[105:] == 9).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_several_threads_call_at_once(threads: int) -> None:
    codec = fast(4, threads=threads)
    inputs = [gaussian(LARGE, seed) for seed in range(6)]
    wanted = [encoded(ReferenceZfp(4), values) for values in inputs]

    def cycle(values: Tensor) -> Tensor:
        data = encoded(codec, values)
        residual = decoded(codec, data, LARGE)
        codec.decode_add(data, residual)
        codec.encode_with_residual(values, residual.zero_(), 1.0, data)
        return data

    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            for found, right in zip(pool.map(cycle, inputs), wanted, strict=True):
                assert torch.equal(found, right)


def _encoded_by_threads(values: Tensor) -> bytes:
    data = numpy.empty(fast(4).encoded_bytes(len(values)), numpy.uint8)  # torch's own threads do not survive a fork.
    assert fast(4, threads=3).encode(values, torch.from_numpy(data))
    return data.tobytes()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    values = gaussian(LARGE)
    wanted = _encoded_by_threads(values)
    with get_context("fork").Pool(1, initializer=_FORKED.append, initargs=(values,)) as pool:
        assert pool.apply_async(_encode_forked).get(timeout=60) == wanted


_FORKED: list[Tensor] = []


def _encode_forked() -> bytes:
    return _encoded_by_threads(_FORKED[0])


def test_memory_that_does_not_fit_is_refused() -> None:
    codec, values = fast(4), gaussian(100)
    data = torch.zeros(codec.encoded_bytes(100), dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"100 values by zfp-4 are a contiguous torch.uint8 \(64,\)"):
        codec.encode(values, data[:-1])
    with pytest.raises(ValueError, match=r"encoded values in torch.int8"):
        codec.decode(data.view(torch.int8), values)
    with pytest.raises(ValueError, match="contiguous 1-D float32, bfloat16 or float16"):
        codec.encode(gaussian(200)[::2], data)
    with pytest.raises(ValueError, match="contiguous 1-D float32, bfloat16 or float16"):
        codec.encode(values.double(), data)
    with pytest.raises(ValueError, match=r"sums in torch.float16 \(100,\): they must be torch.float32"):
        codec.decode_add(data, values.half())
    with pytest.raises(ValueError, match=r"sums in torch.float32 \(99,\): they must be torch.float32 \(100,\)"):
        codec.encode_with_residual(values, values[1:].clone(), 1.0, data)


def test_arguments_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="a rate of 17 bits a value: zfp serves 3 to 16"):
        fast(17)
    with pytest.raises(ValueError, match="0 threads"):
        fast(4, threads=0)
