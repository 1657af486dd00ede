"""Which heartbeats go on to the coordinator: at most one a second of each rank, but news at once."""

from ringtrain.contract.messages import Beat

INTERVAL = 1.0


class BeatFilter:
    """The beats of one rank on their way up."""

    def __init__(self) -> None:
        self._last: Beat | None = None
        self._sent_at = float("-inf")
        self._held: Beat | None = None

    def passes(self, beat: Beat, now: float) -> bool:
        """Whether `beat` goes on now; one that does not is held back and may be replaced by a later one."""
        last = self._last
        news = last is None or (beat.phase, beat.generation) != (last.phase, last.generation)
        if news or now - self._sent_at >= INTERVAL:
            self._last, self._sent_at, self._held = beat, now, None
            return True
        self._held = beat
        return False

    def release(self, now: float) -> Beat | None:
        """The beat that was held back, once its time has come."""
        beat = self._held
        return beat if beat is not None and self.passes(beat, now) else None

    def flush(self) -> Beat | None:
        """The beat that was held back, before the rank says more."""
        beat, self._held = self._held, None
        return beat
