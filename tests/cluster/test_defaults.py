"""What administrators set by default, and jobs inherit, on a real API server: which stores no defaults in its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.environment import ReplicaEnvironment
from support.cluster import Images
from support.kube import Kube, Object
from support.operator_process import OperatorProcess
from support.trial import Trial

pytestmark = pytest.mark.cluster

JOB = "heir"


def operator(kube: Kube, log: Path, **cluster: Any) -> OperatorProcess:
    """With these defaults of the cluster, and a label of the namespace's."""
    label = {"template": {"metadata": {"labels": {"team": "a"}}}}
    return OperatorProcess(
        kube.namespace, log, JOB_DEFAULTS=json.dumps({"cluster": cluster, "namespaces": {kube.namespace: label}})
    )


def told(pod: Object) -> ReplicaEnvironment:
    (container,) = pod["spec"]["containers"]
    return ReplicaEnvironment.from_env({each["name"]: each["value"] for each in container["env"] if "value" in each})


def test_a_job_inherits_and_keeps_what_it_does_not_say(
    kube: Kube, no_operator: Kube, images: Images, tmp_path: Path
) -> None:
    log, communication = tmp_path / "operator.log", {"codec": "zfp", "rate": 6, "warmupRounds": 3}
    with operator(kube, log, image=images.trainer, communication=communication).running(kube) as first:
        trial = Trial(kube, first, images.trainer)
        trial.submit(JOB, trial.nano(image=None, communication={"codec": "none"}))
        trial.until_trained(f"{JOB}-1-0", 3)
    stored = kube.get("tj", JOB) or {}
    assert "image" not in stored["spec"]
    assert stored["spec"]["communication"] == {"codec": "none"}
    # Whatever the defaults are now, the pod that takes the place of a lost one is like it.
    kube.delete("pod", f"{JOB}-1-0")
    with operator(kube, log, image="localhost/no-such:1", communication={"warmupRounds": 9}).running(kube) as second:
        status = Trial(kube, second, images.trainer).until_phase(JOB, "Succeeded", "Failed")
        pods = trial.pods(JOB)
    assert (status["phase"], status["restarts"]) == ("Succeeded", 1)
    assert json.loads(status["inherited"]) == {
        "communication": communication,
        "image": images.trainer,
        "template": {"metadata": {"labels": {"team": "a"}}},
    }
    assert sorted(pod["metadata"]["name"] for pod in pods) == [f"{JOB}-0-0", f"{JOB}-1-1"]
    for pod in pods:
        assert pod["spec"]["containers"][0]["image"] == images.trainer
        assert pod["metadata"]["labels"]["team"] == "a"
        known = told(pod).communication
        assert (known.codec, known.rate, known.warmup_rounds) == ("none", None, 3)


def test_a_job_without_an_image_hears_of_both_ways(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(image=None))
    message = trial.until_phase(JOB, "Invalid")["message"]
    assert message.startswith("spec.image: is required: name one here")
    assert "jobDefaults" in message
    trial.submit(JOB, trial.nano(trainer={"rounds": 2}))
    trial.until_phase(JOB, "Succeeded")
