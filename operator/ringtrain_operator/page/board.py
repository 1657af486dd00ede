"""What the page shows: the jobs that exist, with how they went since they are watched."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.page.curve import Curve, extended
from ringtrain_operator.plan.observed import JobKey

_SHOWN = {
    "phase", "message", "replicas", "ready", "generation", "restarts", "counted_restarts", "round", "total_rounds",
    "loss", "communication", "last_checkpoint", "failures", "warnings", "start_time", "completion_time",
}  # fmt: skip
"""Of a status: what the trainers were told, and pods' UIDs, are nobody's business here."""


@dataclass(frozen=True, slots=True)
class _Entry:
    status: TrainingJobStatus
    curve: Curve


class Board:
    """`notice` says what keeps it from knowing anything, or is empty."""

    def __init__(self, place: str, clock: Callable[[], datetime], notice: Callable[[], str] = lambda: "") -> None:
        self._place = place
        self._clock = clock
        self._notice = notice
        self._since = clock()
        self._jobs: dict[JobKey, _Entry] = {}

    def seen(self, key: JobKey, status: TrainingJobStatus | None, now: datetime) -> None:
        """`status` after a pass at `now`; None: the job is gone."""
        before = self._jobs.pop(key, None)
        if status is not None:
            self._jobs[key] = _Entry(status, extended(before.curve if before else (), status, now))

    def keep(self, keys: Set[JobKey]) -> None:
        """Forgets all other jobs."""
        self._jobs = {key: entry for key, entry in self._jobs.items() if key in keys}

    def document(self) -> dict[str, Any]:
        """As JSON has it; `curve` has [seconds since the epoch of Unix, round, loss, share of communication]."""
        return {
            "place": self._place,
            "notice": self._notice(),
            "now": self._clock().timestamp(),
            "since": self._since.timestamp(),
            "jobs": [_job(key, entry) for key, entry in sorted(self._jobs.items())],
        }


def _job(key: JobKey, entry: _Entry) -> dict[str, Any]:
    return {
        "namespace": key.namespace,
        "name": key.name,
        "status": entry.status.model_dump(mode="json", by_alias=True, include=_SHOWN),
        "curve": [[point.time, point.round, point.loss, point.share] for point in entry.curve],
    }
