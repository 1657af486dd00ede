"""Faults at random."""

import random
from collections.abc import Callable, Sequence


class Chaos:
    """Does one thing after another, in an order that `seed` decides; `told` says what was done."""

    def __init__(self, seed: int, faults: Sequence[Callable[[], None]]) -> None:
        self.told = [f"seed {seed}"]
        self.random = random.Random(seed)
        self._faults = faults
        self._left: list[Callable[[], None]] = []

    def strike(self) -> None:
        """Each of the faults comes once before any comes again."""
        if not self._left:
            self._left = self.random.sample(self._faults, len(self._faults))
        self._left.pop()()
