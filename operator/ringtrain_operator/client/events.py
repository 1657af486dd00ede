"""Kubernetes events about a job, its pods and its volume claim."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ringtrain_operator.api.spec import KIND
from ringtrain_operator.plan.names import claim_name


@dataclass(frozen=True, slots=True)
class JobEvent:
    time: datetime
    """Of its last time."""
    type: str
    """Normal or Warning."""
    reason: str
    object: str
    """KIND/NAME of what it is about."""
    count: int
    message: str


def events_of(job: str, uid: str, raw: Iterable[Mapping[str, Any]]) -> tuple[JobEvent, ...]:
    """Those about the job of that UID and about its children, oldest first."""
    return tuple(sorted((_event(found) for found in raw if _concerns(job, uid, found)), key=lambda event: event.time))


def _concerns(job: str, uid: str, raw: Mapping[str, Any]) -> bool:
    about = raw["involvedObject"]
    kind, name = about.get("kind"), about.get("name", "")
    if kind == KIND:
        return bool(name == job and about.get("uid", uid) == uid)
    if kind == "Pod":
        return re.fullmatch(rf"{re.escape(job)}-\d+-\d+", name) is not None
    return kind in ("PersistentVolumeClaim", "Service") and name in (job, claim_name(job))


def _event(raw: Mapping[str, Any]) -> JobEvent:
    about = raw["involvedObject"]
    series = raw.get("series") or {}
    time = (
        series.get("lastObservedTime")
        or raw.get("lastTimestamp")
        or raw.get("eventTime")
        or raw["metadata"]["creationTimestamp"]
    )
    return JobEvent(
        time=datetime.fromisoformat(time),
        type=raw.get("type", "Normal"),
        reason=raw.get("reason", ""),
        object=f"{about.get('kind')}/{about.get('name')}",
        count=series.get("count") or raw.get("count") or 1,
        message=str(raw.get("message", "")).strip(),
    )
