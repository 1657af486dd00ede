"""What the cluster is asked for, and in which order; tests/cluster has the same class on a real API server."""

from pathlib import Path
from typing import Any

import pytest

from operator_.plan.builders import job
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.plan.observed import Observed
from support.scripted_api import ScriptedApi, by_path, says

NAMESPACE = "/api/v1/namespaces/team"
PODS = f"{NAMESPACE}/pods"


def observe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, metadata: dict[str, Any] | None
) -> tuple[Observed, list[str]]:
    """What is seen, and the paths of the requests; `metadata` is that of the namespace, if there is one."""
    answers = {PODS: says(200, {"items": []})}
    if metadata is not None:
        answers[NAMESPACE] = says(200, {"metadata": metadata})
    server = ScriptedApi(by_path(answers))

    async def work(api: KubernetesApi) -> Observed:
        return await KubernetesCluster(api, lambda: 0.0).observe(job())

    return server.ask(folder, monkeypatch, work), [request.path for request in server.requests]


def test_a_namespace_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed, _ = observe(tmp_path, monkeypatch, {"name": "team"})
    assert not observed.namespace_ending


def test_a_namespace_that_is_being_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed, paths = observe(tmp_path, monkeypatch, {"deletionTimestamp": "2026-11-29T16:00:00Z"})
    assert observed.namespace_ending
    # The other way round, pods could be seen to go before it is known why.
    assert paths.index(PODS) < paths.index(NAMESPACE)


def test_a_namespace_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observed, _ = observe(tmp_path, monkeypatch, None)
    assert observed.namespace_ending
