"""A real Prometheus, fed by a real operator and by a job that trains, has data for every panel.

The operator cares for a job in the cluster. The trainers of a job of that name run on this machine.
"""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.harness import Run, Runs
from support import promql
from support.kube import Kube, Object
from support.operator_process import OperatorProcess
from support.panels import PATIENCE, answers, numbers
from support.prometheus import Prometheus

pytestmark = pytest.mark.cluster

JOB = "panels"
REPLICAS = 2
NOT_ON_CPUS = "ringtrain:model_flops_utilization:ratio"
"""Of devices whose data sheets are known."""


def manifest(namespace: str) -> Object:
    return {
        "apiVersion": "ringtrain.io/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": JOB, "namespace": namespace},
        "spec": {
            "image": "localhost/no-such-image:1",
            "imagePullPolicy": "Never",
            "replicas": REPLICAS,
            "device": "cpu",
            "trainer": {
                "rounds": 100000,
                "model": {"size": "nano", "layers": 1, "contextLength": 32},
                "data": {"paths": ["{stdlib}/*.py"]},
                "batch": {"perRank": 2},
            },
            "communication": {"warmupRounds": 4},
            "checkpoint": {"every": 5, "volume": {"claimTemplate": {"storage": "1Gi"}}},
        },
    }


@pytest.fixture
def operator_process(kube: Kube, no_operator: Kube, tmp_path: Path) -> Iterator[OperatorProcess]:
    process = OperatorProcess(kube.namespace, tmp_path / "operator.log")
    process.start()
    yield process
    process.kill()


@pytest.fixture
def run(kube: Kube, tmp_path: Path) -> Iterator[Run]:
    """The job, in training."""
    runs = Runs(tmp_path)
    (tmp_path / "job.yaml").write_text(json.dumps(manifest(kube.namespace)))
    started = runs.start_file("job.yaml", name=JOB)
    try:
        started.wait_for(r"Running|round")
        yield started
    finally:
        runs.close()


@pytest.fixture
def prometheus(operator_process: OperatorProcess, run: Run, tmp_path: Path) -> Iterator[Prometheus]:
    def targets() -> list[Object]:
        return [{"targets": [f"127.0.0.1:{operator_process.metrics_port}", *run.agents(REPLICAS)]}]

    with Prometheus(targets, tmp_path, promql.RULES) as server:
        yield server


def test_every_panel_and_rule_has_data(kube: Kube, run: Run, prometheus: Prometheus) -> None:
    kube.apply(manifest(kube.namespace))
    variables = {"namespace": kube.namespace, "training_job": JOB}
    # Two commits: from then on there are rates of saves.
    prometheus.until(f'ringtrain_job_phase{{training_job="{JOB}"}}', PATIENCE)
    prometheus.until(
        f'increase(ringtrain_checkpoints_total{{training_job="{JOB}",outcome="committed"}}[1m]) > 0', PATIENCE
    )
    for answer in answers(prometheus, kube.namespace, JOB):
        assert answer.numbers, answer
    for rule in promql.rules():
        if "record" in rule and rule["record"] != NOT_ON_CPUS:
            assert numbers(prometheus, rule["record"]), rule
    assert not prometheus.query('ALERTS{alertstate="firing"}')

    os.kill(rank_process(run), signal.SIGKILL)
    assert numbers(prometheus, f'ringtrain_rank_restarts_total{{training_job="{JOB}"}} > 0') == (1.0,)
    marks = {each["name"]: each["expr"] for each in promql.dashboards()["job"]["annotations"]["list"] if "expr" in each}
    for name in ("Generations", "Checkpoints"):
        assert prometheus.until(promql.filled(marks[name], **variables), PATIENCE), name


def rank_process(run: Run) -> int:
    """Of any rank."""
    with urllib.request.urlopen(f"http://{run.agents(REPLICAS)[1]}/status", timeout=10) as answer:
        pid: int = json.load(answer)["ranks"][0]["pid"]
    return pid
