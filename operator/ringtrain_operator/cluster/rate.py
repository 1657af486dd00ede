"""How many requests a client makes: a token bucket."""


class Rate:
    """`per_second` on average, and at most `burst` at once. Times are in seconds of any monotonic clock."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._full_at = float("-inf")
        """When nothing would be owed any more."""

    def take(self, now: float) -> float:
        """Seconds to wait before the request; its turn is kept."""
        self._full_at = max(self._full_at, now) + 1 / self._per_second
        return max(0.0, self._full_at - now - self._burst / self._per_second)
