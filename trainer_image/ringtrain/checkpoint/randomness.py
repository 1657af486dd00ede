"""The state of every random number generator of a process."""

import random
from typing import Any

import numpy
import torch

from ringtrain.checkpoint.tree import Tree


def seed(*numbers: int) -> None:
    """Seeds Python's, NumPy's and torch's generators (those of all GPUs too) from `numbers`, all of which matter."""
    value = int(numpy.random.SeedSequence(numbers).generate_state(1, numpy.uint64)[0])
    random.seed(value)
    numpy.random.seed(value % 2**32)
    torch.manual_seed(value)


def capture() -> Tree:
    kind, keys, position, has_gauss, cached = numpy.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (str(kind), [int(key) for key in keys], int(position), int(has_gauss), float(cached)),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore(state: Any) -> None:
    """Sets what `capture` returned. GPU states are set for as many GPUs as there are."""
    random.setstate(state["python"])
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    for device, generator in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(generator, device)
