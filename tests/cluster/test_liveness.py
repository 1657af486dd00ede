"""Pod liveness is the heartbeat: a rank that hangs is restarted in its pod, or ends its own pod, and nobody else's."""

import time
from signal import SIGSTOP

import pytest

from support.kube import Object
from support.trial import Trial

pytestmark = pytest.mark.cluster

JOB = "job"
TRAINING_SECONDS = 5.0
# A rank may be stopped in any phase, in that of a checkpoint too.
TIMEOUTS = {"timeouts": {"training": TRAINING_SECONDS, "checkpointing": 20, "restoring": 60, "compiling": 60}}

TOLERANCE = {"inPlaceRestarts": 0, **TIMEOUTS}
"""Only the kubelet's probe is left to act."""

SPINS = """
import ringtrain
from ringtrain.contract.phases import Phase

def train(context):
    context.beat(Phase.TRAINING)
    if context.rank == 1 and context.generation.epoch == 0:
        while True:
            pass

ringtrain.run(train)
"""


def uids(trial: Trial) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in trial.pods(JOB)}


def check_hang(trial: Trial) -> Object:
    status = trial.until_phase(JOB, "Succeeded", "Failed")
    assert status["phase"] == "Succeeded", status
    (failure,) = status["failures"]
    assert (failure["reason"], failure["replica"], failure["counted"]) == ("Hang", 1, True)
    assert f"{JOB}-0-0" in uids(trial)
    return status


def test_a_stopped_rank_is_started_again_in_its_pod(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(faultTolerance=TIMEOUTS))
    trial.signal_rank(f"{JOB}-1-0", SIGSTOP, rounds=10)
    status = check_hang(trial)
    assert (status["round"], status["restarts"]) == (150, 1)
    (failure,) = status["failures"]
    assert failure["inPlace"]
    assert "it is stopped (SIGSTOP)" in failure["message"]
    assert set(uids(trial)) == {f"{JOB}-0-0", f"{JOB}-1-0"}


def test_a_stopped_rank_is_a_hang(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(faultTolerance=TOLERANCE))
    trial.signal_rank(f"{JOB}-1-0", SIGSTOP, rounds=10)
    status = check_hang(trial)
    assert (status["round"], status["restarts"]) == (150, 1)
    assert any(event["reason"] == "Hang" for event in trial.events(JOB))


def test_training_code_that_spins_is_a_hang(trial: Trial) -> None:
    spec = trial.nano(trainer=None, checkpoint=None, command=["python", "-c", SPINS], faultTolerance=TOLERANCE)
    trial.submit(JOB, spec)
    check_hang(trial)


def test_an_absent_pod_fails_no_other_pods_probe(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(replicas=3, faultTolerance=TOLERANCE, trainer={"rounds": 300}))
    trial.until_trained(f"{JOB}-2-0", 10)
    before = uids(trial)
    # The replacement is refused for much longer than a rank in training may be silent.
    trial.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "2"}},
        }
    )
    trial.kube.kubectl("delete", "pod", f"{JOB}-2-0")
    trial.until("the replacement is refused", lambda: "exceeded quota" in trial.message(JOB))
    time.sleep(3 * TRAINING_SECONDS)
    waiting = trial.status(JOB)
    assert waiting["phase"] == "Restarting"
    assert waiting["restarts"] == 1
    for pod in trial.pods(JOB):
        assert pod["status"]["phase"] == "Running"
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    trial.kube.kubectl("delete", "quota", "few")
    status = trial.until_phase(JOB, "Succeeded", "Failed")
    assert (status["phase"], status["restarts"]) == ("Succeeded", 1)
    after = uids(trial)
    assert {name: after.get(name) for name in (f"{JOB}-0-0", f"{JOB}-1-0")} == {
        name: before[name] for name in (f"{JOB}-0-0", f"{JOB}-1-0")
    }
