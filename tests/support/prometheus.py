"""A real Prometheus, as a process on this machine, that scrapes the pods of a cluster by their annotations.

Debian's Prometheus is built without the discovery of Kubernetes pods: the targets are listed here, before every query.
"""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.kube import Kube, Object
from support.tools import TESTBED, command

ANNOTATION = "prometheus.io/"

Vector = dict[tuple[tuple[str, str], ...], float]
"""Values by their labels, sorted."""


def target(pod: Object) -> Object | None:
    """What a Prometheus that heeds the usual annotations scrapes of a pod."""
    annotations = pod["metadata"].get("annotations", {})
    address = pod["status"].get("podIP")
    if annotations.get(ANNOTATION + "scrape") != "true" or not address or pod["status"]["phase"] != "Running":
        return None
    return {
        "targets": [f"{address}:{annotations[ANNOTATION + 'port']}"],
        "labels": {
            "__metrics_path__": annotations[ANNOTATION + "path"],
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
        },
    }


class Prometheus:
    """A context manager; its data are in `folder`."""

    def __init__(self, kube: Kube, folder: Path) -> None:
        self._kube = kube
        self._targets = folder / "targets.json"
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.json"  # JSON is YAML
        scrape = {"job_name": "pods", "file_sd_configs": [{"files": [str(self._targets)], "refresh_interval": "2s"}]}
        every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
        config.write_text(json.dumps({"global": every, "scrape_configs": [scrape]}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        binary = command(TESTBED / "fetch-prometheus", timeout=300).strip()
        files = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
        self._command = [binary, *files, f"--web.listen-address={address}"]

    def __enter__(self) -> Self:
        self._list_targets()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)

    def query(self, expression: str) -> Vector:
        """The instant vector. Raises AssertionError when the expression is wrong, URLError while Prometheus starts."""
        self._list_targets()
        url = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return {tuple(sorted(item["metric"].items())): float(item["value"][1]) for item in answer["data"]["result"]}

    def until(self, expression: str, timeout: float = 60.0) -> Vector:
        """The first result that is not empty. Raises AssertionError with Prometheus's log after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                if found := self.query(expression):
                    return found
            except urllib.error.URLError:
                assert self._process.poll() is None, f"Prometheus ended: {self._log.read_text()}"
            if time.monotonic() > deadline:
                raise AssertionError(f"{expression}: nothing within {timeout:.0f} s; {self._log.read_text()[-3000:]}")
            time.sleep(0.5)

    def _list_targets(self) -> None:
        pods = json.loads(self._kube.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
        part = self._targets.with_suffix(".part")
        part.write_text(json.dumps([found for pod in pods if (found := target(pod))]))
        part.replace(self._targets)
