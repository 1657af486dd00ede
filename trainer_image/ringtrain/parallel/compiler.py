"""What torch.compile needs beside torch."""

import os
import shutil

import torch

from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.runtime.errors import BadConfiguration


def require_compiler(config: ParallelismConfig, device: torch.device) -> None:
    """Raises BadConfiguration when `config` asks for torch.compile, and there is no compiler for its code.

    torch itself would say so in the middle of the first round, and the job be retried.
    """
    if not config.compile:
        return
    # On GPUs the code is Triton's, whose launchers are in C.
    variable, compilers = ("CC", ("gcc", "clang")) if device.type == "cuda" else ("CXX", ("g++",))
    named = os.environ.get(variable)
    if not any(map(shutil.which, (named,) if named else compilers)):
        raise BadConfiguration(
            f"spec.parallelism.compile needs a compiler, and there is no {named or ' or '.join(compilers)} here: "
            f"install it in spec.image, name another by the environment variable {variable}, or set compile false"
        )
