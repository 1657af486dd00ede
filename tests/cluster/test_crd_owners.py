"""A CRD that kubectl has brought, and what docs/installing.md says to do about it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.api_server import ApiServer
from support.kube import SYSTEM, Kube, Object
from support.tools import CHART, CommandError, command, tool

pytestmark = pytest.mark.cluster

CRD = "trainingjobs.ringtrain.io"
CONFLICT = "conflict with .kubectl-client-side-apply"


@pytest.fixture
def kube(api_server: ApiServer) -> Iterator[Kube]:
    found = api_server.kube(SYSTEM)
    yield found
    helm(found, "uninstall", "ringtrain", "--ignore-not-found")
    found.delete("crd", CRD, "--ignore-not-found")


def helm(kube: Kube, *arguments: str | Path) -> None:
    command(tool("helm"), *arguments, f"--kubeconfig={kube.kubeconfig}", f"--namespace={kube.namespace}")


def install(kube: Kube, *options: str) -> None:
    helm(kube, "upgrade", "--install", "ringtrain", CHART, "--create-namespace", *options)


def columns(crd: Object) -> list[Object]:
    found: list[Object] = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    return found


def test_helm_takes_over_from_kubectl_when_it_is_told_to(kube: Kube) -> None:
    version = json.loads(kube.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    templates = (tool("helm"), "template", "ringtrain", CHART, "--show-only=templates/crd.yaml")
    ours = yaml.safe_load(command(*templates, f"--kube-version={version}"))
    other = json.loads(json.dumps(ours))
    columns(other).pop()
    kube.apply(other)
    with pytest.raises(CommandError, match="cannot be imported into the current release"):
        install(kube)
    with pytest.raises(CommandError, match=CONFLICT):
        install(kube, "--take-ownership")
    install(kube, "--take-ownership", "--force-conflicts")
    assert columns(kube.get("crd", CRD) or {}) == columns(ours)

    kube.apply(other)
    with pytest.raises(CommandError, match=CONFLICT):
        install(kube)
    install(kube, "--force-conflicts")
    install(kube)
    assert columns(kube.get("crd", CRD) or {}) == columns(ours)
