"""Settings of the whole process, made before anything is computed."""

import torch


def prepare(threads: int, device: torch.device) -> None:
    """Fixed threads and deterministic algorithms: on CPUs, the same run gives the same bits."""
    torch.set_num_threads(threads)
    # On GPUs some kernels have no deterministic variant, and the others cost speed: no bitwise promise there.
    # torch.use_deterministic_algorithms would do the same, but imports the compiler.
    torch.set_deterministic_debug_mode("error" if device.type == "cpu" else "default")
