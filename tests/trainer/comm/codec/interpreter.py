"""Where Triton's kernels run in tests: on a GPU if there is one, and in Triton's interpreter, on the CPU.

Triton reads TRITON_INTERPRET when it is imported. So the interpreter has a process of its own, which runs the same
file's tests.
"""

import os
import subprocess
import sys

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_GPU = not INTERPRETED and torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
where_kernels_run = pytest.mark.skipif(
    not INTERPRETED and not HAS_GPU, reason="no GPU: test_all_in_the_interpreter runs it on the CPU"
)
outside = pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")


def check_in_interpreter(file: str) -> None:
    """Runs a file's tests in the interpreter: none may fail, and some must run."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=890,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
