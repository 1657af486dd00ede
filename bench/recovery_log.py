"""What the logs of a TrainingJob's pods tell of its rounds, and of where a recovery's time goes."""

import re

from recovery_results import RANKS
from recovery_rounds import Finished
from recovery_steps import Line, parse, steps

_ROUND = re.compile(r"round (\d+)/\d+ loss ")


class RingtrainLog:
    def __init__(self, finished: list[Finished]) -> None:
        """Rounds are added to `finished`."""
        self._finished = finished
        self._lines: list[Line] = []

    def take(self, at: float, text: str) -> None:
        """A line that was printed at `at`, by time.time."""
        finished = _ROUND.match(text)
        if finished:
            self._finished.append(Finished(at, int(finished[1]), RANKS, self._generation))
        line = parse(text)
        if line is not None:
            self._lines.append(line)

    def steps(self, fault_at: float, until: float) -> dict[str, float]:
        return steps(self._lines, RANKS, fault_at, until)

    @property
    def _generation(self) -> str:
        found = (line.generation for line in reversed(self._lines) if line.generation)
        return next(found, "")
