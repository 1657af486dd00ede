"""The masked-language-model task: which tokens are hidden, and how."""

import numpy as np
from numpy.typing import NDArray

from ringtrain.data.batch import IGNORED

_REPLACED_BY_MASK = 0.8
_REPLACED_BY_RANDOM = 0.1


def mask(
    tokens: NDArray[np.int64], *, probability: float, mask_token: int, vocabulary: int, seed: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(input, targets) of one sequence, both int64 [length]; the same seed gives the same.

    As in BERT, of the chosen tokens 80 % become the mask token, 10 % a random one, 10 % stay; targets hold the chosen
    ones and IGNORED elsewhere. The chosen share is exact, and at least one token, so no sequence is without a target.
    """
    generator = np.random.Generator(np.random.Philox(list(seed)))
    length = tokens.shape[0]
    chosen = generator.choice(length, size=max(1, round(probability * length)), replace=False)
    fate = generator.random(chosen.size)
    substitutes = generator.integers(0, vocabulary, chosen.size)

    targets = np.full(length, IGNORED, dtype=np.int64)
    targets[chosen] = tokens[chosen]
    hidden = tokens.copy()
    masked = fate < _REPLACED_BY_MASK
    random = ~masked & (fate < _REPLACED_BY_MASK + _REPLACED_BY_RANDOM)
    hidden[chosen[masked]] = mask_token
    hidden[chosen[random]] = substitutes[random]
    return hidden, targets
