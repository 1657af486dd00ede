"""Which of several operators leads: decisions on their Lease, by the rules of client-go's leader election.

The clocks of two machines are never compared: a lease is over when nothing of it has changed for as long as it lasts,
by the watcher's own clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A lease as it was last read."""

    version: str
    holder: str
    """Empty when it was given back."""
    renewed: str
    seconds: float
    """It lasts so long after each renewal."""
    since: float
    """When it was first seen like this, in seconds of a monotonic clock."""


def see(lease: Object, before: Seen | None, now: float) -> Seen:
    """`lease` was read `now`; `before` is what was seen of it the last time."""
    spec = lease.get("spec") or {}
    found = Seen(
        version=lease["metadata"]["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        renewed=spec.get("renewTime") or "",
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        since=now,
    )
    same = before is not None and (before.holder, before.renewed) == (found.holder, found.renewed)
    return before if same and before is not None else found


def is_free(seen: Seen, me: str, now: float) -> bool:
    """Whether `me` may take the lease."""
    return seen.holder in ("", me) or now - seen.since >= seen.seconds


def claimed(lease: Object | None, me: str, seconds: float, time: datetime) -> dict[str, Any]:
    """The spec with which `me` takes or renews the `lease`, None: the first one, for so many seconds from `time` on."""
    spec: dict[str, Any] = dict((lease or {}).get("spec") or {})
    stamp = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if spec.get("holderIdentity") != me:
        spec |= {"acquireTime": stamp, "leaseTransitions": spec.get("leaseTransitions", -1) + 1}
    return spec | {"holderIdentity": me, "leaseDurationSeconds": max(1, round(seconds)), "renewTime": stamp}


def released(lease: Object) -> dict[str, Any]:
    """The spec with which its holder gives the `lease` back, so that another need not wait."""
    return dict(lease["spec"]) | {"holderIdentity": "", "leaseDurationSeconds": 1}
