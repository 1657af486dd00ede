"""Which part of a model a pipeline stage is: pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Stage:
    """Sub-layers `begin`..`end`-1. The first stage also embeds tokens, the last one also gives logits."""

    index: int
    count: int
    """Stages of the pipeline."""
    begin: int
    end: int

    @property
    def first(self) -> bool:
        return self.index == 0

    @property
    def last(self) -> bool:
        return self.index == self.count - 1

    def __str__(self) -> str:
        parts = ["embedding"] * self.first + [f"sub-layers {self.begin}-{self.end - 1}"] + ["head"] * self.last
        return f"stage {self.index}: {', '.join(parts)}"


def cut(sublayers: int, boundaries: Sequence[int]) -> tuple[Stage, ...]:
    """All stages; `boundaries` are the sub-layers with which all but the first begin.

    Raises ValueError when a stage would have no sub-layer.
    """
    bounds = [0, *boundaries, sublayers]
    if any(begin >= end for begin, end in pairwise(bounds)):
        raise ValueError(f"boundaries {list(boundaries)} leave a stage without any of the {sublayers} sub-layers")
    return tuple(Stage(index, len(bounds) - 1, begin, end) for index, (begin, end) in enumerate(pairwise(bounds)))


def of_rank(stages: Sequence[Stage], place: int, pipeline: int) -> Iterator[Stage]:
    """Those that the `place`-th of a pipeline's ranks holds: every `pipeline`-th."""
    yield from stages[place::pipeline]
