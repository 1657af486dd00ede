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
class EndPod:
    """What runs in it beside the training container, which has ended, ends too; the pod is kept for its logs."""

    name: str
    uid: str
    """Precondition: only this very pod."""


@dataclass(frozen=True, slots=True)
class Create:
    """A Service, NetworkPolicy, PersistentVolumeClaim, PodGroup or Pod, with its owner reference. One that exists
    already is left as it is, but for a PodGroup, which becomes what is said here."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Carried out in this order, each step only when the one before succeeded: status, deletes, creates, the job's own
    deletion. The events follow whenever the status was persisted."""

    status: TrainingJobStatus
    deletes: tuple[DeletePod | EndPod, ...] = ()
    creates: tuple[Create, ...] = ()
    delete_job: bool = False
    """With all that it owns."""
    events: tuple[Event, ...] = ()
    wants_room: bool = False
    """Whether pods may be created rests on `Observed.room`, which nobody has looked at: nothing of this plan is to be
    carried out, but that of the job with it."""
    requeue_after: float | None = None
    """Seconds until the next pass even if nothing happens; None: only when something does."""
