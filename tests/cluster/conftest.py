"""Fixtures on a real Kubernetes. What is started here is stopped here, unless RINGTRAIN_TESTBED_KEEP=1."""

import os
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ringtrain_operator.commands.app import app
from support import cluster as under_test
from support.api_server import NOBODY, ApiServer
from support.api_server import api_server as start_api_server
from support.cluster import Cluster, Images
from support.healthy_cluster import HealthyCluster, healthy_cluster
from support.kube import SYSTEM, Kube
from support.operator_process import OperatorProcess
from support.prometheus import Prometheus, annotated_pods, shipped_relabeling
from support.trial import Trial

TEST_SECONDS = 600
"""For a test by itself; the first one's fixtures may build images for many minutes, under time-outs of their own."""

Invoke = Callable[..., Result]

_kube = pytest.StashKey[Kube]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_SECONDS, func_only=True))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running cluster; KUBECONFIG names it while the tests run."""
    if os.geteuid() != 0 and "RINGTRAIN_TEST_KUBECONFIG" not in os.environ:
        pytest.skip("the test bed needs root; or name a cluster in RINGTRAIN_TEST_KUBECONFIG")
    found = under_test.start()
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(found.kubeconfig)
    yield found
    if before is None:
        del os.environ["KUBECONFIG"]
    else:
        os.environ["KUBECONFIG"] = before
    under_test.stop(found)


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> Images:
    """This checkout's images, on every node that runs."""
    return under_test.load_images(cluster)


@pytest.fixture(scope="session")
def _operator(cluster: Cluster, images: Images) -> Iterator[None]:
    was_installed = under_test.is_installed(cluster)
    under_test.install_operator(cluster, images)
    yield
    if not was_installed and not under_test.keep():
        under_test.uninstall_operator(cluster)


@pytest.fixture
def operator(_operator: None, cluster: Cluster) -> Kube:
    """The operator's namespace, with a ready operator in it."""
    kube = cluster.kube(SYSTEM)
    kube.kubectl("scale", "deployment/ringtrain", "--replicas=1")
    kube.kubectl("rollout", "status", "deployment/ringtrain", "--timeout=120s", timeout=150)
    return kube


@pytest.fixture
def no_operator(_operator: None, cluster: Cluster) -> Kube:
    """The operator's namespace; the CRD is installed and no operator runs. It can be scaled up again."""
    kube = cluster.kube(SYSTEM)
    kube.kubectl("scale", "deployment/ringtrain", "--replicas=0")
    kube.until("the operator's pod to end", lambda: not kube.all("pods"))
    return kube


@pytest.fixture
def kube(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kube]:
    """A fresh namespace; it is deleted, with all that is in it, after the test."""
    found = cluster.kube(f"test-{uuid.uuid4().hex[:8]}")
    found.kubectl("create", "namespace", found.namespace)
    request.node.stash[_kube] = found
    yield found
    # Pods take their grace to end: the next test, in another namespace, need not wait for it.
    found.delete("namespace", found.namespace, "--wait=false")
    if cluster.is_testbed:
        cluster.testbed("reclaim")


@pytest.fixture
def trial(kube: Kube, no_operator: Kube, images: Images, tmp_path: Path) -> Iterator[Trial]:
    """A fresh namespace with an operator of its own, which runs as a process here."""
    process = OperatorProcess(kube.namespace, tmp_path / "operator.log")
    process.start()
    found = Trial(kube, process, images.trainer)
    try:
        found.until_operator_ready()
        yield found
    finally:
        process.kill()
        # pytest shows it when the test fails
        sys.stdout.write(process.log.read_text())


@pytest.fixture
def all_nodes(cluster: Cluster) -> Iterator[list[str]]:
    """The names of the nodes, all Ready. Those that the test killed are started again after it."""
    if not cluster.is_testbed:
        pytest.skip("nodes are killed on the test bed only")
    names = [node["metadata"]["name"] for node in cluster.kube().all("nodes")]
    for name in names:
        cluster.start_node(name)
    yield names
    for name in names:
        cluster.start_node(name)


@pytest.fixture
def prometheus(cluster: Cluster, tmp_path: Path) -> Iterator[Prometheus]:
    """Scrapes the annotated pods of all namespaces every second."""
    if not cluster.is_testbed:
        pytest.skip("pod addresses are reachable from here on the test bed only")
    relabeling = shipped_relabeling()
    with Prometheus(lambda: annotated_pods(cluster.kube()), tmp_path, relabeling=relabeling) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    kube = item.stash.get(_kube, None)
    if report.when == "call" and report.failed and kube is not None:
        report.sections.append(("the cluster", kube.diagnostics()))
    return report


@pytest.fixture(scope="session")
def api_server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server without nodes and controllers, that no other test depends on; `NOBODY` is a user without rights."""
    if not cluster.is_testbed:
        pytest.skip("the API server's binary is the test bed's")
    with start_api_server(tmp_path_factory.mktemp("api-server"), NOBODY) as server:
        yield server


@pytest.fixture
def healthy(api_server: ApiServer) -> Iterator[HealthyCluster]:
    """Tests break one thing of it."""
    with healthy_cluster(api_server) as found:
        yield found


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """invoke(kubeconfig, "status", ...): the command line, in this process."""

    def run(kubeconfig: Path, *arguments: str | Path) -> Result:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run
