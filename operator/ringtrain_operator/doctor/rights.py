"""What users and the operator need to be allowed."""

from collections.abc import Iterable
from dataclasses import dataclass

from ringtrain_operator.api.spec import GROUP, PLURAL


@dataclass(frozen=True, slots=True, order=True)
class Right:
    group: str
    """API group; empty: core."""
    resource: str
    """With its subresource: pods/log."""
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def _rights(group: str, resource: str, *verbs: str) -> tuple[Right, ...]:
    return tuple(Right(group, resource, verb) for verb in verbs)


USER = (
    *_rights(GROUP, PLURAL, "get", "list", "create", "update", "patch", "delete"),
    *_rights("", "pods", "get", "list"),
    *_rights("", "pods/log", "get"),
    *_rights("", "pods/proxy", "get"),
    *_rights("", "events", "list"),
)
"""For all verbs of the command line."""

OPERATOR = (
    *_rights(GROUP, PLURAL, "get", "list", "watch", "delete"),
    *_rights(GROUP, f"{PLURAL}/status", "update"),
    *_rights("", "namespaces", "get"),
    *_rights("", "pods", "get", "list", "watch", "create", "patch", "delete"),
    *_rights("", "services", "get", "list", "watch", "create"),
    *_rights("", "persistentvolumeclaims", "get", "list", "watch", "create"),
    *_rights("networking.k8s.io", "networkpolicies", "get", "list", "watch", "create"),
    *_rights("scheduling.volcano.sh", "podgroups", "create", "patch"),
    *_rights("scheduling.x-k8s.io", "podgroups", "create", "patch"),
    *_rights("", "events", "create", "patch"),
)
"""As the chart grants them, in each namespace that it looks at."""
NODES = _rights("", "nodes", "get", "list", "watch")
"""Where it watches nodes."""
LEASE = _rights("coordination.k8s.io", "leases", "get", "create", "update")
"""In its own namespace."""


def in_words(denied: Iterable[Right]) -> str:
    """`create, delete trainingjobs.ringtrain.io; list pods`."""
    verbs: dict[str, list[str]] = {}
    for right in denied:
        verbs.setdefault(str(right).removeprefix(f"{right.verb} "), []).append(right.verb)
    return "; ".join(f"{', '.join(found)} {resource}" for resource, found in verbs.items())
