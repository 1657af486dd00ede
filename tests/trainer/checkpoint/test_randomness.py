import json
import random

import numpy
import torch

from ringtrain.checkpoint import randomness
from ringtrain.checkpoint.tree import flatten, unflatten


def draw() -> list[float]:
    return [random.random(), random.gauss(0, 1), *numpy.random.normal(size=3), *torch.randn(3).tolist()]


def test_generators_go_on_where_they_were_captured() -> None:
    randomness.seed(7)
    draw()
    tensors, structure = flatten(randomness.capture())
    expected = draw()
    randomness.seed(8)
    randomness.restore(unflatten(tensors, json.dumps(json.loads(structure))))
    assert draw() == expected


def test_a_seed_fixes_all_generators() -> None:
    randomness.seed(2**63)
    first = draw()
    randomness.seed(2**63)
    assert draw() == first
    randomness.seed(2**63 + 1)
    assert all(one != other for one, other in zip(draw(), first, strict=True))
