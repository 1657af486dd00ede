"""A replica that is lost again and again without spending the budget is replaced ever more slowly."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain_operator.api.status import Failure

FREE = 3
"""Losses within WINDOW that are repaired at once."""
WINDOW = timedelta(minutes=10)
FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0


def seconds_to_wait(replica: int, failures: Sequence[Failure], now: datetime) -> float:
    """Before a new pod is created for `replica`; 0 when it may be at once."""
    recent = [f for f in failures if f.replica == replica and not f.counted and now - f.time < WINDOW]
    if len(recent) <= FREE:
        return 0
    delay = min(FIRST_SECONDS * 2.0 ** (len(recent) - FREE - 1), LONGEST_SECONDS)
    return max(0, delay - (now - recent[-1].time).total_seconds())
