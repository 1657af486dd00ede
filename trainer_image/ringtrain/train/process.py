"""Settings of the whole process, made before anything is computed."""

import sys

import numpy
import torch

from ringtrain.checkpoint import randomness


def prepare(threads: int, device: torch.device) -> None:
    """Fixed threads and deterministic algorithms: on CPUs, the same run gives the same bits."""
    torch.set_num_threads(threads)
    # On GPUs some kernels have no deterministic variant, and the others cost speed: no bitwise promise there.
    # torch.use_deterministic_algorithms would do the same, but imports the compiler.
    torch.set_deterministic_debug_mode("error" if device.type == "cpu" else "default")


def seed(*numbers: int) -> None:
    """Seeds all random generators of the process from `numbers`, all of which matter."""
    sequence = numpy.random.SeedSequence(numbers)
    randomness.seed(int(sequence.generate_state(1, numpy.uint64)[0]))


def say(rank: int, text: str) -> None:
    """Prints a line, once for the whole job."""
    if rank == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
