"""Everything that happened to the pods of a job, as one watch saw it."""

import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from support.kube import JOB_LABEL, Kube, Object
from support.tools import tool


class PodHistory:
    """A context manager; `doubled` is for after it."""

    def __init__(self, kube: Kube, job: str, file: Path) -> None:
        self._file = file
        self._command = [
            *(str(tool("kubectl")), f"--kubeconfig={kube.kubeconfig}", f"--namespace={kube.namespace}"),
            *("get", "pods", f"--selector={JOB_LABEL}={job}", "--watch", "--output-watch-events", "--output=json"),
        ]

    def __enter__(self) -> Self:
        with self._file.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self._file.stat().st_size:
            assert time.monotonic() < deadline, "the watch of pods shows nothing"
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def doubled(self) -> list[str]:
        """The moments at which two pods of one replica were there of which neither had ended."""
        pods: dict[str, Object] = {}
        found: list[str] = []
        for event in self._events():
            pod = event["object"]
            pods[pod["metadata"]["name"]] = pod
            if event["type"] == "DELETED":
                del pods[pod["metadata"]["name"]]
            live = [pod for pod in pods.values() if pod["status"].get("phase") in ("Pending", "Running")]
            replicas = Counter(pod["metadata"]["labels"]["ringtrain.io/replica"] for pod in live)
            if any(count > 1 for count in replicas.values()):
                found.append(" ".join(sorted(pod["metadata"]["name"] for pod in live)))
        return found

    def _events(self) -> list[Object]:
        text, decoder, events, position = self._file.read_text(), json.JSONDecoder(), [], 0
        while position < len(text.rstrip()):
            event, position = decoder.raw_decode(text, position)
            events.append(event)
            position += len(text[position:]) - len(text[position:].lstrip())
        return events
