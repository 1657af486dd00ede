"""A real Prometheus, as a process on this machine, that scrapes what it is told to.

Debian's Prometheus is built without the discovery of Kubernetes pods: what it would find is listed here, before every
query. What is made of it is up to the configuration that the chart ships.
"""

import functools
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from support.kube import Kube, Object
from support.tools import CHART, TESTBED, command

SCRAPE = CHART / "scrape.yaml"

Vector = dict[tuple[tuple[str, str], ...], float]
"""Values by their labels, sorted."""


@functools.cache
def binary() -> Path:
    """Of Debian's package, with promtool beside it."""
    return Path(command(TESTBED / "fetch-prometheus", timeout=300).strip())


def annotated_pods(kube: Kube) -> list[Object]:
    """Of all namespaces."""
    pods = json.loads(kube.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
    return [target(pod) for pod in pods if pod["status"].get("podIP")]


def target(pod: Object) -> Object:
    """What Prometheus's discovery tells of a pod that has an address, as far as `SCRAPE` asks for it."""
    found = {
        "pod_ip": pod["status"]["podIP"],
        "pod_phase": pod["status"]["phase"],
        "namespace": pod["metadata"]["namespace"],
        "pod_name": pod["metadata"]["name"],
    }
    for name, value in pod["metadata"].get("annotations", {}).items():
        found["pod_annotation_" + re.sub(r"\W", "_", name)] = value
    return {
        "targets": [pod["status"]["podIP"]],
        "labels": {f"__meta_kubernetes_{name}": value for name, value in found.items()},
    }


def shipped_relabeling() -> list[Object]:
    """Of the chart's scrape configuration."""
    (found,) = yaml.safe_load(SCRAPE.read_text())["scrape_configs"]
    assert found["honor_labels"]
    rules: list[Object] = found["relabel_configs"]
    return rules


class Prometheus:
    """A context manager; its data are in `folder`. It scrapes what `targets` lists, in the words of file_sd_configs, as
    `relabeling` has it, and evaluates the rules of the file `rules`."""

    def __init__(
        self,
        targets: Callable[[], list[Object]],
        folder: Path,
        rules: Path | None = None,
        relabeling: Sequence[Object] = (),
    ) -> None:
        self._list = targets
        self._targets = folder / "targets.json"
        self._log = folder / "prometheus.log"
        config = folder / "prometheus.json"  # JSON is YAML
        found = {"files": [str(self._targets)], "refresh_interval": "2s"}
        scrape = {
            "job_name": "pods",
            "honor_labels": True,
            "file_sd_configs": [found],
            "relabel_configs": list(relabeling),
        }
        every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        files = [str(rules)] if rules is not None else []
        config.write_text(json.dumps({"global": every, "scrape_configs": [scrape], "rule_files": files}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{address}"
        paths = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
        self._command = [str(binary()), *paths, f"--web.listen-address={address}"]

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

    def scraped(self) -> dict[str, dict[str, str]]:
        """The labels of all targets by their URL. Raises URLError while Prometheus starts."""
        with urllib.request.urlopen(f"{self.url}/api/v1/targets?state=active", timeout=10) as response:
            found = json.load(response)["data"]["activeTargets"]
        return {each["scrapeUrl"]: each["labels"] for each in found}

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
        part = self._targets.with_suffix(".part")
        part.write_text(json.dumps(self._list()))
        part.replace(self._targets)
