"""The check of all machines before training, in real jobs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from support.trainer_job import TrainerJob
from trainer.train.test_checkpoints import CONFIG, FED_BACK, notices

pytestmark = pytest.mark.distributed

Make = Callable[..., TrainerJob]
PASSED = re.compile(r"^pre-flight check: all \d+ ranks are fit: product .* s\), exchange .* s\)$", re.MULTILINE)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[TrainerJob] = []

    def build(name: str, **settings: Any) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        volume = CheckpointSettings(directory=str(directory / "volume"), every=20)
        # Other work on this machine makes none of its ranks unfit.
        preflight = Preflight(slower_than=8)
        given: dict[str, Any] = {"trainer": CONFIG, "replicas": 3, "communication": FED_BACK, "preflight": preflight}
        made.append(TrainerJob(directory, checkpoint=volume, **(given | settings)))
        return made[-1]

    yield build
    for job in made:
        job.close()


def checks(job: TrainerJob) -> int:
    """How many were passed, by the log."""
    return len(PASSED.findall(job.printed(0)))


@pytest.mark.parametrize("processes", [1, 2])
def test_fit_machines_train_as_if_there_were_no_check(make: Make, processes: int) -> None:
    size = {"replicas": 4 // processes, "procs_per_replica": processes}
    plain = make("plain", preflight=None, **size)
    plain.start_all()
    plain.finish()
    job = make("job", **size)
    job.start_all()
    job.until(lambda: "PreflightPassed" in [reason for reason, _ in notices(job)], "an event")
    status = job.status(0)
    assert status is not None
    fitness = status.ranks[0].fitness
    assert fitness is not None
    assert fitness.exchange is not None
    job.finish()
    assert (checks(plain), checks(job)) == (0, 1)
    assert job.digest == plain.digest


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("wrong", r"unfit: its matrix product is wrong"),
        (
            "slow",
            r"unfit: its matrix product took [2-9](\.\d+)? s, the median of all ranks is 0\.\d+ s \(.*slowerThan is 8",
        ),
        ("hang", r"has sent no heartbeat for \d+\.\d s in phase checking \(its limit is 10 s\)"),
        ("stop", r"has not run for \d+\.\d s in phase checking: it is stopped"),
    ],
)
def test_an_unfit_machine_is_told_and_its_replacement_is_checked_with_all(make: Make, fault: str, told: str) -> None:
    # Long enough for the others, on a machine with other work.
    timeouts = PhaseTimeouts(checking=10 if fault == "hang" else 60)
    job = make("job", faults=f"{fault}:rank=1,round=0", timeouts=timeouts, in_place_restarts=3)
    job.start_all()
    assert job.wait(1) == ExitCode.UNFIT
    message = job.termination(1)
    assert (message.reason, message.rank) == ("Unfit", 1)
    assert re.match(f"rank 1:? {told}", message.message), message.message
    assert checks(job) == 0
    survivors = [job.rank_pid(replica) for replica in (0, 2)]
    job.start(1, epoch=1)
    job.until(lambda: job.round(1) > 1, "training")
    assert [job.rank_pid(replica) for replica in (0, 2)] == survivors
    job.finish()
    assert checks(job) == 1


def test_a_rank_that_is_started_again_in_its_pod_is_not_checked_again(make: Make) -> None:
    job = make("job", faults="kill:rank=1,round=30", in_place_restarts=3)
    job.start_all()
    job.finish()
    assert len(job.starts) == 2
    assert checks(job) == 1


def test_a_rank_that_ends_in_its_check_is_checked_when_it_comes_back(make: Make) -> None:
    job = make("job", faults="kill:rank=1,round=0", in_place_restarts=3)
    job.start_all()
    job.finish()
    assert [failure.exit_code for failure in job.termination(0).rank_failures] == [137]
    assert checks(job) == 1


def test_a_new_pod_of_a_job_that_trains_is_checked_with_all_ranks(make: Make) -> None:
    job = make("job", trainer=CONFIG.model_copy(update={"rounds": 300}))
    job.start_all()
    job.until(lambda: job.round(1) > 3, "progress")
    job.kill(1)
    job.start(1, epoch=1)
    job.finish()
    assert checks(job) == 2
