"""What a pass decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ringtrain_operator.api.status import TrainingJobStatus


@dataclass(frozen=True, slots=True)
class DeletePod:
    name: str
    uid: str
    """Precondition: only this very pod is deleted."""
    force: bool = False
    """Without grace: its node is dead."""


@dataclass(frozen=True, slots=True)
class Create:
    """A Service, PersistentVolumeClaim or Pod, with its owner reference. One that exists already is left as it is."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Carried out in this order, each step only when the one before succeeded: status, deletes, creates. The events
    follow whenever the status was persisted."""

    status: TrainingJobStatus
    deletes: tuple[DeletePod, ...] = ()
    creates: tuple[Create, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None
    """Seconds until the next pass even if nothing happens; None: only when something does."""
