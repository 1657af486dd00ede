"""What the API server would not have lately."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ringtrain_operator.queue import LONGEST_BACKOFF

_SECONDS = 2 * LONGEST_BACKOFF
"""What is lacking is tried again all the time: a refusal that did not come again for so long is over."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    words: str
    at: float


class Refusals:
    """By job UID, and by what was refused."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._of: dict[str, dict[str, _Refusal]] = {}

    def refused(self, uid: str, what: str, words: str) -> None:
        self._of.setdefault(uid, {})[what] = _Refusal(words, self._clock())

    def taken(self, uid: str, what: str) -> None:
        self._of.get(uid, {}).pop(what, None)

    def words(self, uid: str) -> str:
        """Why something that the job still lacks was refused lately; empty when nothing was."""
        refusals = self._of.get(uid, {}).values()
        return next((refusal.words for refusal in refusals if self._clock() - refusal.at < _SECONDS), "")

    def forget_all_but(self, uids: Collection[str]) -> None:
        self._of = {uid: refusals for uid, refusals in self._of.items() if uid in uids}
