"""What fails again and again is replaced ever more slowly."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain_operator.api.status import Failure
from ringtrain_operator.plan.incidents import grouped

FREE = 3
"""Times within WINDOW that are repaired at once."""
WINDOW = timedelta(minutes=10)
FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0


def seconds_to_wait(replica: int, failures: Sequence[Failure], now: datetime) -> float:
    """Before a new pod is created for `replica`; 0 when it may be at once.

    Its own losses count, and the job's own faults, whichever replica showed them: one cause often ends several pods
    at once, which counts as one time.
    """
    told = (failure for failure in failures if failure.counted or failure.replica == replica)
    lost = grouped(failure for failure in told if not failure.in_place and now - failure.time < WINDOW)
    recent = [group[-1].time for group in lost]
    if len(recent) <= FREE:
        return 0
    delay = min(FIRST_SECONDS * 2.0 ** (len(recent) - FREE - 1), LONGEST_SECONDS)
    return max(0, delay - (now - max(recent)).total_seconds())
