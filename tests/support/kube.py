"""A Kubernetes cluster as tests see it: kubectl, JSON, waits that end, and what to look at when they do."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from support.tools import CommandError, command, tool

Object = dict[str, Any]
T = TypeVar("T")

SYSTEM = "ringtrain-system"
"""Where the operator lives."""
JOB_LABEL = "ringtrain.io/job"


class WaitTimeout(AssertionError):
    """What was waited for did not come in time."""


@dataclass(frozen=True)
class Kube:
    """kubectl on one namespace."""

    kubeconfig: Path
    namespace: str

    def within(self, namespace: str) -> "Kube":
        return replace(self, namespace=namespace)

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 60.0) -> str:
        """Its standard output. Raises CommandError."""
        own = (f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}")
        return command(tool("kubectl"), *own, *args, stdin=stdin, timeout=timeout)

    def apply(self, *manifests: Object) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def get(self, kind: str, name: str) -> Object | None:
        """None when there is no such object."""
        text = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        found: Object | None = json.loads(text) if text else None
        return found

    def all(self, kind: str, selector: str = "", field_selector: str = "") -> list[Object]:
        selectors = (f"--selector={selector}", f"--field-selector={field_selector}")
        items: list[Object] = json.loads(self.kubectl("get", kind, *selectors, "-o", "json"))["items"]
        return items

    def delete(self, kind: str, name: str, *args: str, timeout: float = 120.0) -> None:
        self.kubectl("delete", kind, name, *args, timeout=timeout)

    def logs(self, pod: str, *args: str) -> str:
        return self.kubectl("logs", pod, *args)

    def exec(self, pod: str, *args: str, timeout: float = 60.0) -> str:
        return self.kubectl("exec", pod, "--", *args, timeout=timeout)

    def events(self, reason: str = "") -> list[Object]:
        """Of this namespace, oldest first."""
        found = self.all("events", field_selector=f"reason={reason}" if reason else "")
        return sorted(found, key=lambda event: event["metadata"]["creationTimestamp"])

    def until(self, what: str, condition: Callable[[], T | None], timeout: float = 120.0, every: float = 0.5) -> T:
        """The first true value of `condition`. Raises WaitTimeout with diagnostics after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        problem = ""
        while True:
            try:
                if found := condition():
                    return found
            except CommandError as error:  # the API server may be away for a moment
                problem = f"\nthe last attempt failed: {error}"
            if time.monotonic() > deadline:
                raise WaitTimeout(f"not within {timeout:.0f} s: {what}{problem}")
            time.sleep(every)

    def diagnostics(self, tail: int = 40) -> str:
        """Everything one would type after a failure: objects, events, logs of the jobs' pods and of the operator."""
        parts = [
            self._try("get", "trainingjobs,pods,services,persistentvolumeclaims", "-o", "wide"),
            self._try("get", "nodes", "-o", "wide"),
            self._try("describe", "trainingjobs"),
            self._try("get", "events", "--sort-by=.metadata.creationTimestamp"),
        ]
        for pod in self._names("pods"):
            parts.append(self._try("describe", "pod", pod))
            parts.append(self._try("logs", pod, f"--tail={tail}", "--all-containers"))
        system = self.within(SYSTEM)
        for pod in system._names("pods"):
            parts.append(system._try("describe", "pod", pod))
            parts.append(system._try("logs", pod, f"--tail={2 * tail}"))
            parts.append(system._try("logs", pod, f"--tail={tail}", "--previous"))
        return "\n".join(parts)

    def _names(self, kind: str) -> list[str]:
        try:
            return [item["metadata"]["name"] for item in self.all(kind)]
        except CommandError:
            return []

    def _try(self, *args: str) -> str:
        try:
            said = self.kubectl(*args)
        except CommandError as error:
            said = str(error)
        return f"--- kubectl -n {self.namespace} {' '.join(args)}\n{said}"
