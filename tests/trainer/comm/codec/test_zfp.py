import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ringtrain.comm.codec.zfp import Zfp
from ringtrain.comm.codec.zfp_numba import NumbaZfp
from ringtrain.comm.codec.zfp_reference import ReferenceZfp

WITHOUT = """
import sys
import torch
sys.modules[sys.argv[1]] = None
from ringtrain.comm.codec.zfp import Zfp, warm
warm(torch.float32)
values = torch.randn(200, generator=torch.Generator().manual_seed(0))
codec = Zfp(5, threads=2)
data = torch.zeros(codec.encoded_bytes(200), dtype=torch.uint8)
assert codec.encode(values, data)
print(bytes(data).hex())
try:
    Zfp(5, midpoint=True)
except ValueError as error:
    print(error)
"""


def without(module: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, module], capture_output=True, text=True, timeout=120, check=True
    )
    return run.stdout.splitlines()


def test_without_numba_zfpy_writes_the_same_bytes() -> None:
    by_zfpy, refusal = without("numba")
    (by_numba,) = without("zfpy")
    assert by_zfpy == by_numba
    assert refusal == "zfp's midpoint needs numba, which is not installed"


def test_hands_all_to_the_codec_that_it_chose() -> None:
    codec, reference = Zfp(4, midpoint=True, threads=2), NumbaZfp(4, midpoint=True, threads=1)
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    data = torch.zeros(codec.encoded_bytes(1000), dtype=torch.uint8)
    assert codec.encode(values, data)
    found, wanted = torch.zeros(1000), torch.zeros(1000)
    codec.decode(data, found)
    reference.decode(data, wanted)
    assert torch.equal(found, wanted)
    codec.decode_add(data, found)
    assert torch.equal(found, 2 * wanted)
    residual = torch.zeros(1000)
    assert codec.encode_with_residual(values, residual, 1.0, data)
    assert torch.equal(residual, values - wanted)
    assert (codec.rate, codec.name, codec.block) == (4, "zfp-4", 64)


def test_values_on_a_gpu_need_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    codec = Zfp(4)
    with FakeTensorMode():
        values, data = torch.zeros(64, device="cuda"), torch.zeros(32, dtype=torch.uint8, device="cuda")
        residual = torch.zeros(64, device="cuda")
    for work in (
        lambda: codec.encode(values, data),
        lambda: codec.encode_with_residual(values, residual, 1.0, data),
        lambda: codec.decode(data, values),
        lambda: codec.decode_add(data, values),
    ):
        with pytest.raises(RuntimeError, match="zfp needs triton for values on a GPU, and it is not installed"):
            work()


@pytest.mark.parametrize("rate", [2, 17])
def test_refuses_rates_that_zfp_cannot_serve(rate: int) -> None:
    with pytest.raises(ValueError, match=f"a rate of {rate} bits a value: zfp serves 3 to 16"):
        Zfp(rate)
    with pytest.raises(ValueError, match=f"a rate of {rate} bits a value: zfp serves 3 to 16"):
        ReferenceZfp(rate)


def test_warm_leaves_nothing_to_compile() -> None:
    script = """
import torch
from ringtrain.comm.codec import zfp, zfp_kernels
zfp.warm(torch.float32)
kernels = (zfp_kernels.encode, zfp_kernels.decode, zfp_kernels.encode_with_residual)
print([len(kernel.signatures) for kernel in kernels])
codec, values, data = zfp.Zfp(4), torch.zeros(64), torch.zeros(32, dtype=torch.uint8)
codec.encode(values, data), codec.decode(data, values), codec.decode_add(data, values)
codec.encode_with_residual(values, torch.zeros(64), 1.0, data)
print([len(kernel.signatures) for kernel in kernels])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines() == ["[1, 1, 1]"] * 2
