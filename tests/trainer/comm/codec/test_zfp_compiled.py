"""Where machine code is kept."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ringtrain

SCRIPT = """
import numpy
from ringtrain.comm.codec import zfp_compiled, zfp_values
from ringtrain.comm.codec.zfp_compiled import compiled
import measured
kernel = compiled(measured.kernel)
assert kernel(numpy.int64(3)) == 4
print("kept" if kernel.stats.cache_path else "not kept", "hit" if kernel.stats.cache_hits else "miss")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of Ringtrain and of a function to compile."""
    shutil.copytree(
        Path(ringtrain.__file__).parent, tmp_path / "ringtrain", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "measured.py").write_text("def kernel(value):\n    return value + 1\n")
    return tmp_path


def outcome(package: Path, **environment: str) -> str:
    environment |= {"PYTHONPATH": str(package), "PATH": ""}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout.strip()


def test_machine_code_is_kept_until_any_source_changes(package: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert outcome(package, NUMBA_CACHE_DIR=cache) == "kept miss"
    assert outcome(package, NUMBA_CACHE_DIR=cache) == "kept hit"
    for name in ("format", "planes", "values", "vectors", "words"):
        source = package / f"ringtrain/comm/codec/zfp_{name}.py"
        source.write_text(source.read_text() + "\n# Changed.\n")
        assert outcome(package, NUMBA_CACHE_DIR=cache) == "kept miss", name


def test_compiles_where_no_folder_can_be_written_to(package: Path, tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("Not even root can make a folder of this name, or in it.")
    nowhere = str(tmp_path / "__pycache__" / "home")
    assert outcome(package, HOME=nowhere, XDG_CACHE_HOME=nowhere) == "not kept miss"
