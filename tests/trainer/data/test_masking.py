import numpy as np
import pytest
from numpy.typing import NDArray

from ringtrain.data.batch import IGNORED
from ringtrain.data.masking import mask

MASK, VOCABULARY = 1000, 1001


def _mask(
    tokens: NDArray[np.int64], *seed: int, probability: float = 0.15
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return mask(tokens, probability=probability, mask_token=MASK, vocabulary=VOCABULARY, seed=seed)


def test_targets_are_the_chosen_tokens() -> None:
    tokens = np.arange(100)
    hidden, targets = _mask(tokens, 1)
    chosen = targets != IGNORED
    assert chosen.sum() == 15
    assert (targets[chosen] == tokens[chosen]).all()
    assert (hidden[~chosen] == tokens[~chosen]).all()
    assert (tokens == np.arange(100)).all()


def test_the_chosen_are_masked_replaced_or_kept() -> None:
    tokens = np.zeros(20_000, dtype=np.int64)
    hidden, targets = _mask(tokens, 1, probability=0.5)
    hidden = hidden[targets != IGNORED]
    assert (hidden == MASK).mean() == pytest.approx(0.8, abs=0.02)
    assert (hidden == 0).mean() == pytest.approx(0.1, abs=0.02)


def test_the_seed_decides() -> None:
    tokens = np.arange(100)
    first, again, other = _mask(tokens, 1, 2), _mask(tokens, 1, 2), _mask(tokens, 2, 1)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first[1] != other[1]).any()


def test_the_shortest_sequence_has_a_target() -> None:
    assert (_mask(np.arange(8), 1, probability=0.01)[1] != IGNORED).sum() == 1
