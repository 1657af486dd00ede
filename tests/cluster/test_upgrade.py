"""The last release, upgraded to this checkout: chart, CRD and operator, while pods run the release's code."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support import cluster as under_test
from support.cluster import Cluster, Images
from support.kube import JOB_LABEL, SYSTEM, Kube, Object
from support.tools import ROOT, TESTBED, command
from support.trial import NANO

pytestmark = pytest.mark.cluster

CRD = "trainingjobs.ringtrain.io"
BUILD_SECONDS = 900.0


@dataclass(frozen=True)
class Release:
    """One of the folder `releases`."""

    version: str
    chart: Path

    def images(self) -> Images:
        operator, trainer = (f"localhost/ringtrain-{target}:{self.version}" for target in ("operator", "trainer"))
        return Images(operator, trainer, self.version)


@pytest.fixture
def release(cluster: Cluster, images: Images, _operator: None) -> Iterator[Release]:
    """The newest release, installed in place of this checkout's operator and CRD, which come back after the test."""
    if not cluster.is_testbed:
        pytest.skip("images of a release are built for the test bed only")
    chart = max((ROOT / "releases").glob("ringtrain-*.tgz"))
    found = Release(chart.stem.removeprefix("ringtrain-"), chart)
    layout = command(TESTBED / "build-release", found.version, timeout=BUILD_SECONDS).strip()
    cluster.testbed("load-image", layout, timeout=600)
    try:
        under_test.install_operator(cluster, found.images(), chart=found.chart)
        yield found
    finally:
        under_test.install_operator(cluster, images)


def job(name: str, image: str, **trainer: object) -> Object:
    spec = NANO | {"image": image, "trainer": NANO["trainer"] | trainer}
    return {"apiVersion": "ringtrain.io/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}


def status(kube: Kube, name: str) -> Object:
    found: Object = (kube.get("tj", name) or {}).get("status", {})
    return found


def until_trains(kube: Kube, name: str, after: int) -> None:
    def trains() -> bool:
        now = status(kube, name)
        return now.get("phase") == "Running" and now.get("round", 0) > after

    kube.until(f"{name} trains on after round {after}", trains, timeout=240)


def containers(kube: Kube, name: str) -> dict[str, tuple[str, int]]:
    """By pod: the container's ID, and how often the kubelet restarted it."""
    found = {}
    for pod in kube.all("pods", f"{JOB_LABEL}={name}"):
        (container,) = pod["status"]["containerStatuses"]
        found[pod["metadata"]["name"]] = (container["containerID"], container["restartCount"])
    return found


@pytest.mark.timeout(1200)
def test_jobs_of_the_last_release_train_on_under_this_operator(
    cluster: Cluster, images: Images, kube: Kube, release: Release
) -> None:
    image = release.images().trainer
    kube.apply(job("short", image, rounds=10), job("long", image, rounds=1_000_000))
    kube.until("short has ended", lambda: status(kube, "short").get("phase") == "Succeeded", timeout=240)
    until_trains(kube, "long", after=10)
    ended, before = status(kube, "short"), containers(kube, "long")
    assert sorted(before) == ["long-0-0", "long-1-0"]

    under_test.install_operator(cluster, images)
    (operator,) = cluster.kube(SYSTEM).all("pods", selector="app.kubernetes.io/component=operator")
    assert operator["spec"]["containers"][0]["image"] == images.operator
    wanted = yaml.safe_load((ROOT / "crds" / "ringtrain.io_trainingjobs.yaml").read_text())
    installed = kube.get("crd", CRD) or {}
    assert fields(installed) == fields(wanted)

    until_trains(kube, "long", after=status(kube, "long")["round"] + 10)
    assert containers(kube, "long") == before
    now = status(kube, "long")
    assert (now["epoch"], now["restarts"]) == (0, 0)
    # 0.1.0 could leave `ready` as it was when the last pod ended.
    assert status(kube, "short") | {"ready": 0} == ended | {"ready": 0}

    kube.kubectl("delete", "pod", "long-1-0", "--wait=false")
    kube.until("its pod is replaced", lambda: status(kube, "long")["epoch"] == 1)
    until_trains(kube, "long", after=status(kube, "long")["round"] + 10)
    kube.until("the old pod is gone", lambda: sorted(containers(kube, "long")) == ["long-0-0", "long-1-1"])
    assert containers(kube, "long")["long-0-0"] == before["long-0-0"]


def fields(crd: Object) -> set[str]:
    """The path of each; of the rest of a schema, API servers keep what they know."""
    (version,) = crd["spec"]["versions"]
    return set(paths(version["schema"]["openAPIV3Schema"]))


def paths(schema: Object, at: str = "") -> Iterator[str]:
    yield at
    for name, inner in schema.get("properties", {}).items():
        yield from paths(inner, f"{at}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from paths(schema[keyword], f"{at}[]")
