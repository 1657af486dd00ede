"""Pods, the operator and jobs go away in the middle of training."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

import pytest

from support.kube import Object
from support.pod_history import PodHistory
from support.tools import command
from support.trial import NANO, PATIENCE, Trial

pytestmark = pytest.mark.cluster

JOB = "job"
ROUNDS = NANO["trainer"]["rounds"]
RINGTRAIN = (sys.executable, "-c", "from ringtrain_operator.cli import main; main()")


def check_success(trial: Trial, rounds: int, restarts: int) -> Object:
    status = trial.until_phase(JOB, "Succeeded", "Failed")
    assert status["phase"] == "Succeeded", status
    assert (status["round"], status["totalRounds"]) == (rounds, rounds)
    assert status["restarts"] == restarts
    assert len(status.get("failures", [])) == restarts
    assert status["lastCheckpoint"]["round"] == rounds
    return status


def test_a_job_trains_to_its_end(trial: Trial) -> None:
    trial.submit(JOB, trial.nano())
    status = check_success(trial, rounds=ROUNDS, restarts=0)
    assert float(status["loss"]) < 5.5
    row = trial.kube.kubectl("get", "tj", JOB)
    assert "Succeeded" in row
    assert f"{ROUNDS}/{ROUNDS}" in row
    assert {event["reason"] for event in trial.events(JOB)} >= {"Started", "Training", "Succeeded"}
    trial.kube.kubectl("delete", "tj", JOB)
    trial.until("nothing of the job stays", lambda: trial.children(JOB) == [])


def test_what_a_suspension_saved_is_told_and_gone_on_from(trial: Trial) -> None:
    spec = trial.nano(trainer={"rounds": 100_000})
    spec["checkpoint"]["every"] = 100_000
    trial.submit(JOB, spec)
    trial.until_trained(f"{JOB}-1-0", 10)
    trial.submit(JOB, spec | {"suspend": True})
    status = trial.until_phase(JOB, "Suspended")
    saved = status["lastCheckpoint"]["round"]
    assert saved == status["round"] >= 10
    trial.submit(JOB, spec | {"suspend": False})
    trial.until_trained(f"{JOB}-0-1", saved + 1)
    assert f"start from checkpoint round-{saved:08d}" in trial.kube.kubectl("logs", f"{JOB}-0-1")


@contextmanager
def followed(trial: Trial, into: Path, *options: str) -> Iterator[list[str]]:
    """What `ringtrain logs -f` prints; the list is filled at the end, which the job's end has to bring."""
    lines: list[str] = []
    follow = (*RINGTRAIN, "logs", JOB, "-f", f"--namespace={trial.kube.namespace}", *options)
    with into.open("w") as output, subprocess.Popen(follow, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield lines
            status = process.wait(PATIENCE)
        finally:
            process.kill()
    lines += into.read_text().splitlines()
    assert status == 0, lines


def test_a_deleted_pod_is_replaced(trial: Trial, tmp_path: Path) -> None:
    trial.submit(JOB, trial.nano(trainer={"rounds": 300}))
    with (
        PodHistory(trial.kube, JOB, tmp_path / "pods") as history,
        followed(trial, tmp_path / "all") as log,
        followed(trial, tmp_path / "one", "--rank", "1", "--prefix") as log_of_one,
    ):
        trial.until_trained(f"{JOB}-1-0", 10)
        ranks = json.loads(command(*RINGTRAIN, "top", JOB, "-o", "json", f"--namespace={trial.kube.namespace}"))
        trial.kube.kubectl("delete", "pod", f"{JOB}-1-0", "--wait=false")
        status = check_success(trial, rounds=300, restarts=1)
    assert history.doubled() == []
    (failure,) = status["failures"]
    assert failure["pod"] == f"{JOB}-1-0"
    assert failure["replica"] == 1
    assert failure["reason"] in ("PodDeleted", "Preempted")
    assert not failure["counted"]

    assert {(pod, rank["rank"]) for pod, agent in ranks.items() for rank in agent["ranks"]} == {
        (f"{JOB}-0-0", 0),
        (f"{JOB}-1-0", 1),
    }
    assert all(agent["ranks"][0]["progress"]["round"] >= 9 for agent in ranks.values())
    assert sum(line.startswith(f"[{JOB}-0-0] round 300/300 ") for line in log) == 1
    for lines in (log, log_of_one):
        old, new = ([line for line in lines if line.startswith(f"[{JOB}-1-{epoch}] ")] for epoch in (0, 1))
        assert any("rank 1: " in line for line in old)
        assert "exit code 0 (Done)" in new[-1]
    assert not any(line.startswith(f"[{JOB}-0-") for line in log_of_one)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_killed_rank_is_replaced(trial: Trial, in_place: bool) -> None:
    trial.submit(JOB, trial.nano() if in_place else trial.nano(faultTolerance={"inPlaceRestarts": 0}))
    trial.signal_rank(f"{JOB}-1-0", SIGKILL, rounds=10)
    status = check_success(trial, rounds=ROUNDS, restarts=1)
    (failure,) = status["failures"]
    assert (failure["reason"], failure["rank"], failure["counted"]) == ("Signal9", 1, True)
    assert failure.get("inPlace", False) is in_place
    # The pod that failed is kept for its log.
    assert names(trial) == {f"{JOB}-0-0", f"{JOB}-1-0"} | (set() if in_place else {f"{JOB}-1-1"})


def test_the_operator_is_killed_while_a_pod_is_replaced(trial: Trial, tmp_path: Path) -> None:
    trial.submit(JOB, trial.nano())
    with PodHistory(trial.kube, JOB, tmp_path / "pods") as history:
        trial.until_trained(f"{JOB}-1-0", 10)
        trial.kube.kubectl("delete", "pod", f"{JOB}-1-0", "--wait=false")
        # Killed again and again, at another point of the replacement each time.
        for delay in (0.0, 0.5, 2.0):
            trial.operator.kill()
            trial.operator.start()
            trial.until_operator_ready()
            time.sleep(delay)
        check_success(trial, rounds=ROUNDS, restarts=1)
    assert history.doubled() == []
    # The deleted pod's object outlives its processes for a moment.
    trial.until("only the newest pods stay", lambda: {f"{JOB}-0-0", f"{JOB}-1-1"} == names(trial))


def test_a_pod_is_lost_while_the_operator_is_down(trial: Trial) -> None:
    trial.submit(JOB, trial.nano())
    trial.until_trained(f"{JOB}-0-0", 10)
    trial.operator.kill()
    trial.kube.kubectl("delete", "pod", f"{JOB}-0-0", "--wait=true")
    trial.operator.start()
    check_success(trial, rounds=ROUNDS, restarts=1)


def test_a_job_deleted_while_the_operator_is_down_leaves_nothing(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(trainer={"rounds": 100000}))
    trial.until_round(JOB, 1)
    assert trial.children(JOB) == [
        "PersistentVolumeClaim/job-checkpoints",
        "Pod/job-0-0",
        "Pod/job-1-0",
        "Service/job",
    ]
    trial.operator.kill()
    trial.kube.kubectl("delete", "tj", JOB, "--timeout=30s")
    trial.until("nothing of the job stays", lambda: trial.children(JOB) == [])
    trial.operator.start()
    trial.until_operator_ready()
    time.sleep(2 * 5.0)  # Two resyncs, in which nothing may come back.
    assert trial.children(JOB) == []


def test_a_job_made_anew_under_its_name_starts_over(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(trainer={"rounds": 100000}))
    trial.until_round(JOB, 1)
    trial.kube.kubectl("delete", "tj", JOB, "--wait=false")
    trial.until("the job is gone", lambda: trial.kube.get("tj", JOB) is None)
    trial.submit(JOB, trial.nano(trainer={"rounds": 20}))
    check_success(trial, rounds=20, restarts=0)


def test_a_spent_budget_fails_the_job(trial: Trial) -> None:
    trial.submit(JOB, trial.nano(faultTolerance={"maxRestarts": 1, "inPlaceRestarts": 0}, trainer={"rounds": 100000}))
    for epoch in (0, 1):
        trial.signal_rank(f"{JOB}-1-{epoch}", SIGKILL)
    status = trial.until_phase(JOB, "Failed")
    assert "maxRestarts" in status["message"]
    assert status["restarts"] == 1
    assert [failure["reason"] for failure in status["failures"]] == ["Signal9", "Signal9"]
    trial.until("the healthy pod is stopped", lambda: trial.live_pods(JOB) == [])


def test_the_operator_ends_cleanly(trial: Trial) -> None:
    assert trial.operator.stop() == 0
    trial.operator.start()
    trial.until_operator_ready()


def names(trial: Trial) -> set[str]:
    return {pod["metadata"]["name"] for pod in trial.pods(JOB)}
