"""What ranks tell each other at the end of each round."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Votes:
    """What ranks must know of each other at the end of a round, so that all of them save, or none does."""

    stopping: bool = False
    """A replica is to end: save now."""
    writing: bool = False
    """A rank still writes its part of an earlier checkpoint."""
    full: bool = False
    """A rank's memory has no room, for what is there is still written or copied."""
    copying: bool = False
    """A rank still copies its last snapshot, or takes another's."""
    uncopied: bool = False
    """A rank takes no copies any more in this generation."""

    @property
    def delays_copies(self) -> bool:
        """Whether a snapshot could not be copied, for the one before is still being."""
        return self.copying and not self.uncopied

    def values(self) -> tuple[float, ...]:
        """As numbers, to be summed over all ranks."""
        return tuple(map(float, (self.stopping, self.writing, self.full, self.copying, self.uncopied)))

    @classmethod
    def of_sums(cls, sums: Sequence[float]) -> "Votes":
        return cls(*(value > 0 for value in sums))
