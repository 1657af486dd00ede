"""A pipeline, a torchrun script and another job's parameters, on a real Kubernetes."""

import re
from pathlib import Path
from signal import Signals

import pytest
import yaml

from support.kube import Object
from support.trial import Trial

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPELINE = {"pipeline": 2, "microbatches": 2, "schedule": "1F1B"}


def ended(trial: Trial, job: str) -> Object:
    status = trial.until_phase(job, "Succeeded", "Failed")
    assert status["phase"] == "Succeeded", status
    return status


def test_a_stage_of_a_pipeline_is_lost_with_its_pod(trial: Trial) -> None:
    """Each stage is a pod of its own, and no other holds its parameters: the neighbor's memory has them."""
    spec = trial.nano(parallelism=PIPELINE, checkpoint={"every": 1000, "volume": {"claimTemplate": {"storage": "1Gi"}}})
    trial.submit("job", spec)
    trial.until_trained("job-1-0", 20)
    trial.kube.kubectl("delete", "pod", "job-1-0", "--wait=false", "--grace-period=1")
    status = ended(trial, "job")
    assert (status["round"], status["restarts"]) == (150, 1)
    log = trial.kube.logs("job-0-0")
    assert "rank 0 of each pipeline:" in log
    (source,) = re.findall(r"generation 1\.\d+: 2 ranks start from checkpoint round-(\d+)\S*( in memory)?", log)
    assert int(source[0]) > 10


def test_a_rank_of_a_stage_is_killed(trial: Trial) -> None:
    trial.submit("job", trial.nano(replicas=1, procsPerReplica=2, parallelism=PIPELINE))
    trial.signal_rank("job-0-0", Signals.SIGKILL, rounds=10, rank=1)
    status = ended(trial, "job")
    assert (status["round"], status["restarts"], status["failures"][0]["rank"]) == (150, 1, 1)


def test_a_script_of_torchruns_goes_on_from_its_own_checkpoints(trial: Trial) -> None:
    source = EXAMPLES / "torchrun"
    trial.kube.kubectl("create", "configmap", "torchrun-code", f"--from-file={source / 'train.py'}")
    job = yaml.safe_load((source / "job.yaml").read_text())
    trial.submit("torchrun", job["spec"] | {"image": trial.image, "imagePullPolicy": "IfNotPresent"})
    trial.until("the script trains", lambda: trial.status("torchrun").get("phase") == "Running")
    trial.kube.kubectl("delete", "pod", "torchrun-1-0", "--wait=false", "--grace-period=1")
    status = ended(trial, "torchrun")
    assert status["restarts"] == 1


def test_a_drained_pod_makes_all_save_and_another_job_begins_with_it(trial: Trial) -> None:
    volume = {"claimTemplate": {"storage": "1Gi"}}
    trial.submit("first", trial.nano(trainer={"rounds": 100_000}, checkpoint={"every": 100_000, "volume": volume}))
    trial.until_trained("first-1-0", 10)
    trial.kube.kubectl("delete", "pod", "first-1-0", "--wait=false")

    def saved() -> int | None:
        checkpoint = trial.status("first").get("lastCheckpoint")
        return checkpoint["round"] if checkpoint else None

    round = trial.until("the checkpoint of a round that none was due at", saved)
    assert round % 100_000
    other = {"volume": volume, "restoreFrom": {"claimName": "first-checkpoints", "path": "first"}}
    trial.submit("second", trial.nano(trainer={"rounds": 10}, checkpoint=other))
    status = ended(trial, "second")
    assert status["round"] == 10
    log = trial.kube.logs("second-0-0")
    assert f"start from the parameters of checkpoint round-{round:08d}" in log
