"""A kubelet's view of a probe: what the manifest asks for, and when success or failure counts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An httpGet probe of a container, with Kubernetes' defaults. Times in seconds."""

    path: str
    port: int
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    failure_threshold: int = 3
    success_threshold: int = 1

    @classmethod
    def of(cls, container: Mapping[str, Any], name: str) -> Self | None:
        """The probe `name` (livenessProbe, readinessProbe) of a container manifest; None when it has none.

        Raises ValueError when it is no httpGet probe.
        """
        probe = container.get(name)
        if probe is None:
            return None
        if "httpGet" not in probe:
            raise ValueError(f"{name} is not an httpGet probe: this is the only kind that runs locally")
        get = probe["httpGet"]
        return cls(
            path=str(get.get("path", "/")),
            port=_port(container, get["port"]),
            initial_delay=float(probe.get("initialDelaySeconds", 0)),
            period=float(probe.get("periodSeconds", 10)),
            timeout=float(probe.get("timeoutSeconds", 1)),
            failure_threshold=int(probe.get("failureThreshold", 3)),
            success_threshold=int(probe.get("successThreshold", 1)),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a probe's results amount to so far."""

    passing: bool
    streak: int = 0
    """Latest results in a row that contradict `passing`."""

    def after(self, success: bool, probe: Probe) -> "Verdict":
        """The verdict after one more result: it turns when a threshold of contradicting results is reached."""
        if success == self.passing:
            return replace(self, streak=0)
        threshold = probe.success_threshold if success else probe.failure_threshold
        if self.streak + 1 >= threshold:
            return Verdict(passing=success)
        return replace(self, streak=self.streak + 1)


def _port(container: Mapping[str, Any], port: int | str) -> int:
    """Ports may be named, as in Kubernetes."""
    if isinstance(port, int):
        return port
    for declared in container.get("ports", ()):
        if declared.get("name") == port:
            return int(declared["containerPort"])
    raise ValueError(f"the container has no port named {port!r}")
