"""What Triton's interpreter takes its compiler may refuse. Compiling needs no GPU; what it makes was never run."""

import os
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed: see the extra gpu")
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ringtrain.comm.codec import zfp_triton_kernels

CONSTANTS = {"rate": 4, "midpoint": True, "adds": True, "blocks": 32}
TYPES = {
    "values": "*fp32", "residual": "*fp32", "data": "*u8", "mark": "*i32", "numel": "i32", "kept": "fp32",
    "forgotten": "fp32",
} | dict.fromkeys(CONSTANTS, "constexpr")  # fmt: skip


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["encode_sum", "keep_lost", "decode"])  # What the others do, these do too.
def test_compiles_to_arithmetic_as_on_cpus(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(zfp_triton_kernels, name)
    types = {argument: TYPES[argument] for argument in kernel.arg_names}
    constants = {argument: CONSTANTS[argument] for argument in kernel.arg_names if argument in CONSTANTS}
    options = {"num_warps": 1, "enable_fp_fusion": False}
    compiled = triton.compile(ASTSource(kernel, types, constants), target=GPUTarget("cuda", 90, 32), options=options)
    assert "mul.f32" in compiled.asm["ptx"] or "mul.rn.f32" in compiled.asm["ptx"]
    assert ".ftz" not in compiled.asm["ptx"]
    assert "fma." not in compiled.asm["ptx"]
