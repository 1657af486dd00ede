"""What holds for every codec."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ringtrain.comm.codec.codec import Codec
from ringtrain.comm.codec.int4 import Int4
from ringtrain.comm.codec.plain import bf16, none
from ringtrain.comm.codec.zfp import Zfp

CODECS: tuple[Codec, ...] = (
    none(), bf16(), Int4(128, rotate=False), Int4(128, rotate=True), Int4(32, rotate=False),
    *(Zfp(rate) for rate in (3, 4, 5, 8, 16)),
)  # fmt: skip
LOSSY = tuple(codec for codec in CODECS if codec.block > 1)
BITS = {"none": 32, "bf16": 16, "int4-128": 4.125, "int4-128-rotated": 4.125, "int4-32": 4.5} | {
    f"zfp-{rate}": rate for rate in range(3, 17)
}
# At least as good as this on Gaussian values: relative error of the whole.
ERROR = {"none": 0.0, "bf16": 0.003, "int4-128": 0.15, "int4-128-rotated": 0.15, "int4-32": 0.13, "zfp-3": 0.6,
         "zfp-4": 0.3, "zfp-5": 0.15, "zfp-8": 0.02, "zfp-16": 1e-4}  # fmt: skip
ZFP_FLOOR = 1e-29
"""Below about 2**-97 zfp's own scaling overflows, and what it writes is as large as that."""
LENGTHS = st.one_of(st.sampled_from([0, 1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 1009, 4099]), st.integers(0, 700))
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
by_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
by_lossy_codec = pytest.mark.parametrize("codec", LOSSY, ids=lambda codec: codec.name)


def gaussian(numel: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    values = torch.randn(numel, generator=torch.Generator().manual_seed(seed)) * scale
    return values.clamp(-60000, 60000).to(dtype)


def encoded(codec: Codec, values: Tensor) -> Tensor:
    data = torch.zeros(codec.encoded_bytes(values.numel()), dtype=torch.uint8)
    assert codec.encode(values, data)
    return data


def decoded(codec: Codec, data: Tensor, numel: int, dtype: torch.dtype = torch.float32) -> Tensor:
    values = torch.full((numel,), 7.0, dtype=dtype)
    codec.decode(data, values)
    return values


@by_codec
@settings(deadline=None)
@given(numel=LENGTHS, seed=st.integers(0, 99), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e4]), dtype=DTYPES)
def test_any_length_and_type(codec: Codec, numel: int, seed: int, scale: float, dtype: torch.dtype) -> None:
    values = gaussian(numel, seed, scale, dtype)
    data = encoded(codec, values)
    blocks = math.ceil(numel / codec.block)
    assert len(data) == blocks * codec.block * BITS[codec.name] / 8
    found = decoded(codec, data, numel)
    assert torch.isfinite(found).all()
    # In a block, no value's error passes what the greatest of the block allows: a lone peak is the worst for zfp.
    worst = 6 * 2.0 ** (3 - codec.rate) if isinstance(codec, Zfp) else 0.4
    for index in range(blocks):
        block = slice(index * codec.block, (index + 1) * codec.block)
        greatest = float(values[block].float().abs().max())
        assert float((found[block] - values[block].float()).abs().max()) <= worst * greatest + ZFP_FLOOR
    same = decoded(codec, data, numel, dtype)
    torch.testing.assert_close(
        same, found.clamp(-65504, 65504).to(dtype) if dtype == torch.float16 else found.to(dtype)
    )


@by_codec
def test_error_on_gaussian_values(codec: Codec) -> None:
    values = gaussian(1 << 16, 1)
    error = (decoded(codec, encoded(codec, values), len(values)) - values).norm() / values.norm()
    assert ERROR[codec.name] / 2 <= error <= ERROR[codec.name]


@by_codec
@settings(deadline=None)
@given(numel=LENGTHS, seed=st.integers(0, 99), keep=st.sampled_from([1.0, 0.5]))
def test_compound_operations_are_the_simple_ones(codec: Codec, numel: int, seed: int, keep: float) -> None:
    values, residual, base = (gaussian(numel, seed + offset) for offset in range(3))
    wanted = values + residual
    data = torch.zeros(codec.encoded_bytes(numel), dtype=torch.uint8)
    new = residual.clone()
    assert codec.encode_with_residual(values, new, keep, data)
    assert torch.equal(data, encoded(codec, wanted))
    lost = wanted - decoded(codec, data, numel)
    torch.testing.assert_close(new, (1 - keep) * residual + keep * lost)
    added = base.clone()
    codec.decode_add(data, added)
    assert torch.equal(added, base + decoded(codec, data, numel))


@by_lossy_codec
@settings(deadline=None)
@given(
    numel=st.integers(1, 300),
    where=st.floats(0, 1, exclude_max=True),
    bad=st.sampled_from([torch.nan, torch.inf, -torch.inf]),
    dtype=DTYPES,
)
def test_what_is_not_finite_is_refused(codec: Codec, numel: int, where: float, bad: float, dtype: torch.dtype) -> None:
    values = gaussian(numel, 3, dtype=dtype)
    values[int(where * numel)] = bad
    data = torch.zeros(codec.encoded_bytes(numel), dtype=torch.uint8)
    assert not codec.encode(values, data)
    residual = torch.ones(numel)
    assert not codec.encode_with_residual(values, residual, 1.0, data)
    assert not residual.any()


@pytest.mark.parametrize("codec", [none(), bf16()], ids=lambda codec: codec.name)
def test_plain_codecs_pass_on_what_is_not_finite(codec: Codec) -> None:
    values = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf])
    assert torch.equal(decoded(codec, encoded(codec, values), 4), values) or torch.isnan(values[1])
    found = decoded(codec, encoded(codec, values), 4)
    assert found[0] == 1
    assert torch.isnan(found[1])
    assert found[2:].tolist() == [torch.inf, -torch.inf]


@by_codec
def test_float16_never_overflows(codec: Codec) -> None:
    values = gaussian(4096, 5, 3e4).clamp(-65504, 65504).half()
    assert torch.isfinite(decoded(codec, encoded(codec, values), 4096, torch.float16)).all()


@by_lossy_codec
def test_zeros_stay_zeros(codec: Codec) -> None:
    assert not decoded(codec, encoded(codec, torch.zeros(1000)), 1000).any()


@pytest.mark.parametrize("greatest", [1e-45, 1e-38, 3e38])
def test_int4_at_the_ends_of_the_range(greatest: float) -> None:
    values = torch.full((128,), greatest)
    values[::2] = 0
    for codec in (Int4(128, rotate=False), Int4(32, rotate=False)):
        found = decoded(codec, encoded(codec, values), 128)
        assert torch.isfinite(found).all()
        assert not found[::2].any()
        assert (found[1::2] - greatest).abs().max() <= greatest


@pytest.mark.parametrize("rate", [-1, 0, 1, 2, 17])
def test_zfp_refuses_rates_that_corrupt_memory(rate: int) -> None:
    with pytest.raises(ValueError, match="3 to 16"):
        Zfp(rate)
