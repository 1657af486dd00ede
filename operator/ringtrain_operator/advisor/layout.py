"""Which gradients travel together: the trainer's buckets, from numbers alone.

The trainer's tests prove that its models and its reducer do the same (tests/trainer/comm/test_advisor.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ringtrain.contract.trainer_config import ModelConfig

BYTES_VOCABULARY = 257
"""Of tokenizer `bytes`: every byte, and the mask."""

_SMALL_VALUES = 1024
_ALIGNMENT = 128
"""Compressed parameters begin at its multiples."""
_TAIL = 4
"""The bucket that is completed last is so many times smaller."""
_VALUE_BYTES = 4
_TYPICAL_ASPECT = 128
"""Width per layer of an ordinary large Transformer."""
_MATRICES = (3, 1, 4, 4)
"""Of a layer, in squares of the width: attention in and out, feed-forward in and out."""


@dataclass(frozen=True, slots=True)
class Parameter:
    values: int
    exact: bool
    """Never compressed: a vector, or a small matrix."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are summed at once."""

    values: int
    """The gaps between parameters included."""
    exact: bool = False
    """Never compressed."""


def built_in(config: ModelConfig, vocabulary: int) -> tuple[Parameter, ...]:
    """The parameters of a built-in model in its order; `vocabulary` counts all token ids."""
    layers, _, width = config.shape
    found = [_matrix(vocabulary * width), _matrix(config.context_length * width)]
    for _ in range(layers):
        found += (*_norm(width), *_linear(width, 3 * width), *_linear(width, width))
        found += (*_norm(width), *_linear(width, 4 * width), *_linear(4 * width, width))
    found += _norm(width)
    if config.kind == "encoder":
        found += (*_linear(width, width), *_norm(width))
    return tuple(found)


def typical(parameters: int) -> tuple[Parameter, ...]:
    """A Transformer of so many parameters in the usual proportions: as wide as 128 times its layers, all in matrices.

    A guess for models whose matrices are not known; it decides how large buckets are, and so how often latency counts.
    """
    layers = max(1, round((parameters / (sum(_MATRICES) * _TYPICAL_ASPECT**2)) ** (1 / 3)))
    weights = _MATRICES * layers
    total, passed, found = sum(weights), 0, []
    for weight in weights:
        values = parameters * (passed + weight) // total - parameters * passed // total
        passed += weight
        found.append(_matrix(values))
    return tuple(parameter for parameter in found if parameter.values)


def buckets(parameters: Sequence[Parameter], bucket_mebibytes: float) -> tuple[Bucket, ...]:
    """As the reducer fills them, in the order in which they are sent: float32, at most so large, the one that is sent
    last a quarter of that, compressed and exact ones apart; a parameter larger than that has a bucket of its own."""
    largest = int(bucket_mebibytes * 2**20)
    closed: list[tuple[int, Bucket]] = []  # With the place of its first parameter.
    filling: dict[bool, tuple[int, list[int]]] = {}
    limits = dict.fromkeys((True, False), largest // _TAIL)
    for place, parameter in enumerate(parameters):
        first, members = filling.get(parameter.exact, (place, []))
        if members and (sum(members) + parameter.values) * _VALUE_BYTES > limits[parameter.exact]:
            closed.append((first, _bucket(members[::-1], parameter.exact)))
            first, members = place, []
            limits[parameter.exact] = largest
        filling[parameter.exact] = (first, [*members, parameter.values])
    closed += ((first, _bucket(members[::-1], exact)) for exact, (first, members) in filling.items())
    return tuple(bucket for _, bucket in sorted(closed, key=lambda entry: entry[0], reverse=True))


def _bucket(members: Sequence[int], exact: bool) -> Bucket:
    alignment = 1 if exact else _ALIGNMENT
    return Bucket(sum(-(-values // alignment) * alignment for values in members[:-1]) + members[-1], exact)


def _matrix(values: int) -> Parameter:
    return Parameter(values, exact=values < _SMALL_VALUES)


def _vector(values: int) -> Parameter:
    return Parameter(values, exact=True)


def _linear(inputs: int, outputs: int) -> Iterator[Parameter]:
    yield _matrix(inputs * outputs)
    yield _vector(outputs)


def _norm(width: int) -> Iterator[Parameter]:
    yield _vector(width)
    yield _vector(width)
