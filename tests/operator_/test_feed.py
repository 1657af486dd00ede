from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.cluster.kinds import Kind
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.feed import Feed
from ringtrain_operator.health import DELIVERY_SECONDS, WatchHealth
from ringtrain_operator.metrics import OperatorMetrics
from ringtrain_operator.plan.observed import JobKey
from support.scripted_api import ScriptedApi, by_path, says

KEY = JobKey("n", "job")
TIME = "2026-11-29T16:00:00Z"


def meta(name: str, version: str = "1", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": TIME,
            **fields,
        }
    }


def job(version: str = "1") -> dict[str, Any]:
    return meta("job", version) | {"spec": {}}


def pod() -> dict[str, Any]:
    return meta("job-0-0", labels={"ringtrain.io/job": "job"}) | {"spec": {"nodeName": "node"}}


def node(ready: bool) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": TIME}
    return meta("node") | {"status": {"conditions": [condition]}}


class Fed:
    """A feed, and all that it feeds."""

    def __init__(self, api: KubernetesApi) -> None:
        self.added: list[JobKey] = []
        self.now = 0.0
        self.cluster = KubernetesCluster(api, lambda: self.now)
        self.health = WatchHealth(Kind, 0)
        self.metrics = OperatorMetrics(lambda: 0)
        self.feed = Feed(self.added.append, self.cluster, self.health, self.metrics.jobs.keep, lambda: self.now)


def test_jobs_and_pods_give_their_jobs_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(api: KubernetesApi) -> None:
        fed = Fed(api)
        for kind, raw in ((Kind.JOBS, job()), (Kind.PODS, pod())):
            for deleted in (False, True):
                fed.feed.event(kind, raw, deleted=deleted)
        assert fed.added == [KEY] * 4

    ScriptedApi(by_path({})).ask(tmp_path, monkeypatch, work)


def test_a_node_gives_the_jobs_with_pods_on_it_when_its_readiness_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ScriptedApi(
        by_path(
            {
                "/apis/ringtrain.io/v1alpha1/namespaces/n/trainingjobs/job": says(200, job()),
                "/api/v1/namespaces/n/pods": says(200, {"items": [pod()]}),
                "/api/v1/namespaces/n/services": says(200, {"items": []}),
                "/api/v1/namespaces/n/persistentvolumeclaims": says(200, {"items": []}),
                "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies": says(200, {"items": []}),
                "/api/v1/nodes/node": says(200, node(True)),
            }
        )
    )

    async def work(api: KubernetesApi) -> None:
        fed = Fed(api)
        stored = await fed.cluster.get_job(KEY)
        assert stored is not None
        observed = await fed.cluster.observe(stored)
        assert observed.nodes["node"].ready
        fed.feed.event(Kind.NODES, node(True), deleted=False)
        assert fed.added == []
        fed.feed.event(Kind.NODES, node(False), deleted=False)
        assert fed.added == [KEY]
        fed.feed.event(Kind.NODES, node(False), deleted=True)
        assert fed.added == [KEY, KEY]
        fed.feed.listed(Kind.JOBS, [], 0)
        fed.feed.event(Kind.NODES, node(True), deleted=False)
        assert fed.added == [KEY, KEY]

    server.ask(tmp_path, monkeypatch, work)


def test_lists_queue_every_job_and_forget_those_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(api: KubernetesApi) -> None:
        fed = Fed(api)
        fed.metrics.jobs.seen(KEY, TrainingJobStatus(), datetime.now(UTC))
        fed.metrics.jobs.seen(JobKey("n", "gone"), TrainingJobStatus(), datetime.now(UTC))
        fed.feed.listed(Kind.JOBS, [job()], 0)
        assert fed.added == [KEY]
        # The watch of pods has told of none.
        fed.feed.listed(Kind.PODS, [pod()], 0)
        assert fed.added == [KEY, KEY]
        assert fed.metrics.registry.get_sample_value("ringtrain_operator_jobs", {"phase": "Pending"}) == 1

    ScriptedApi(by_path({})).ask(tmp_path, monkeypatch, work)


def test_events_and_lists_that_disagree_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(api: KubernetesApi) -> None:
        fed = Fed(api)
        fed.feed.event(Kind.JOBS, job("1"), deleted=False)
        fed.feed.listed(Kind.JOBS, [job("1")], 0)
        fed.now = 10
        fed.feed.listed(Kind.JOBS, [job("2")], 10)
        fed.now += DELIVERY_SECONDS + 1
        assert fed.health.problems(fed.now) != ()
        fed.feed.event(Kind.JOBS, job("2"), deleted=False)
        assert fed.health.problems(fed.now) == ()

    ScriptedApi(by_path({})).ask(tmp_path, monkeypatch, work)
