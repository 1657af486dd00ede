"""How a job went so far: a few hundred points, however long it trains. Pure."""

import math
from dataclasses import dataclass
from datetime import datetime

from ringtrain_operator.api.status import TrainingJobStatus

MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Point:
    time: float
    """Seconds since the epoch of Unix."""
    round: int
    loss: float | None
    """Nats per token."""
    share: float | None
    """Exposed communication / round time, 0..1."""


Curve = tuple[Point, ...]


def extended(curve: Curve, status: TrainingJobStatus, now: datetime) -> Curve:
    """With a point of `status` when its round is another than the last one's: it goes back when the job does. Of a full
    curve, every second point of the older half is dropped."""
    if not status.round or (curve and curve[-1].round == status.round):
        return curve
    share = float(status.communication.share.removesuffix("%")) / 100 if status.communication else None
    loss = float(status.loss) if status.loss else None
    # JSON has no word for what is no number.
    finite = loss if loss is not None and math.isfinite(loss) else None
    longer = (*curve, Point(now.timestamp(), status.round, finite, share))
    if len(longer) <= MOST_POINTS:
        return longer
    half = MOST_POINTS // 2
    return (*longer[:half:2], *longer[half:])
