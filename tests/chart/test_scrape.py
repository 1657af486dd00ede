"""What a real Prometheus makes of pods by the scrape configuration that the chart ships."""

import time
import urllib.error
from pathlib import Path

import pytest
import yaml

from support.kube import Object
from support.manifests import Render, only
from support.prometheus import SCRAPE, Prometheus, shipped_relabeling, target

pytestmark = pytest.mark.chart


def pod(name: str, address: str, phase: str, annotations: dict[str, str]) -> Object:
    metadata = {"namespace": "team-a", "name": name, "annotations": annotations}
    return {"metadata": metadata, "status": {"podIP": address, "phase": phase}}


def test_annotated_pods_that_run_are_scraped(render: Render, tmp_path: Path) -> None:
    annotations = only(render(), "Deployment")["spec"]["template"]["metadata"]["annotations"]
    pods = [
        pod("operator", "127.0.0.2", "Running", annotations),
        pod("ended", "127.0.0.3", "Succeeded", annotations),
        pod("other", "127.0.0.4", "Running", {"a": "b"}),
    ]
    with Prometheus(lambda: [target(each) for each in pods], tmp_path, relabeling=shipped_relabeling()) as prometheus:
        deadline = time.monotonic() + 60
        found: dict[str, dict[str, str]] = {}
        while not found and time.monotonic() < deadline:
            try:
                found = prometheus.scraped()
            except urllib.error.URLError:
                time.sleep(0.2)
    (url,) = found
    assert url == "http://127.0.0.2:9090/metrics"
    assert (found[url]["namespace"], found[url]["pod"]) == ("team-a", "operator")


def test_pods_are_discovered() -> None:
    (job,) = yaml.safe_load(SCRAPE.read_text())["scrape_configs"]
    assert (job["honor_labels"], job["kubernetes_sd_configs"]) == (True, [{"role": "pod"}])
