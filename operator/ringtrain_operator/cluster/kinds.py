"""What is watched and listed."""

from enum import StrEnum
from typing import NamedTuple

from ringtrain_operator.api.spec import GROUP, PLURAL, VERSION
from ringtrain_operator.plan.names import LABEL_JOB


class Kind(StrEnum):
    """By its plural. Jobs come before their children: whatever is listed later is never older."""

    JOBS = PLURAL
    PODS = "pods"
    SERVICES = "services"
    CLAIMS = "persistentvolumeclaims"
    POLICIES = "networkpolicies"
    NODES = "nodes"


class Resource(NamedTuple):
    group: str
    """Empty: the core."""
    version: str
    selector: str
    """Label that its objects carry; empty: all count."""

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


RESOURCES = {
    Kind.JOBS: Resource(GROUP, VERSION, ""),
    Kind.PODS: Resource("", "v1", LABEL_JOB),
    Kind.SERVICES: Resource("", "v1", LABEL_JOB),
    Kind.CLAIMS: Resource("", "v1", LABEL_JOB),
    Kind.POLICIES: Resource("networking.k8s.io", "v1", LABEL_JOB),
    Kind.NODES: Resource("", "v1", ""),
}


def path(kind: Kind, namespace: str = "", name: str = "") -> str:
    """Without `namespace`: of all namespaces, or of what has none."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{RESOURCES[kind].root}{within}/{kind}" + (f"/{name}" if name else "")
