"""Ranks that crash or hang are started again in their pods, and nothing is lost."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.output import split
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.report import RankFailure
from support.trainer_job import TrainerJob
from trainer.train.test_checkpoints import CONFIG, FED_BACK

pytestmark = pytest.mark.distributed
AGENT_OR_COORDINATOR = re.compile(r"\S+ \S+ (replica 0 agent|coordinator) ")

Make = Callable[..., TrainerJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[TrainerJob] = []

    def build(name: str, **settings: Any) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        volume = CheckpointSettings(directory=str(directory / "volume"), every=1000)
        given: dict[str, Any] = {"trainer": CONFIG, "replicas": 2, "communication": FED_BACK, "in_place_restarts": 3}
        made.append(TrainerJob(directory, checkpoint=volume, **(given | settings)))
        return made[-1]

    yield build
    for job in made:
        job.close()


def failures(job: TrainerJob, replica: int = 0) -> tuple[RankFailure, ...]:
    status = job.status(replica)
    return status.job_report.rank_failures if status and status.job_report else ()


@pytest.fixture
def unbroken(make: Make) -> str:
    plain = make("plain")
    plain.start_all()
    plain.finish()
    return plain.digest


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_rank_costs_the_round_that_ran(make: Make, processes: int) -> None:
    """Its snapshots are in its agent's memory: with nothing on the volume, all go on from the last round of all."""
    replicas = 2 // processes
    plain = make("plain", replicas=replicas, procs_per_replica=processes)
    plain.start_all()
    plain.finish()
    job = make("job", replicas=replicas, procs_per_replica=processes, faults="kill:rank=1,round=30")
    job.start_all()
    job.finish()
    assert job.starts[0] == "the seed"
    assert job.starts[1] in ("round-00000028", "round-00000029")
    assert job.digest == plain.digest
    (failure,) = job.termination(0).rank_failures
    assert (failure.replica, failure.rank, failure.exit_code) == (replicas - 1, 1, 137)
    assert failure.message == "rank 1 was killed by SIGKILL"


def test_rank_0_is_as_good_as_any(make: Make, unbroken: str) -> None:
    job = make("job", faults="kill:rank=0,round=11;kill:rank=1,round=40")
    job.start_all()
    job.finish()
    assert job.digests == [unbroken]
    assert [failure.rank for failure in job.termination(1).rank_failures] == [0, 1]


def test_what_ranks_of_one_replica_print_has_their_prefix_after_a_restart_too(make: Make) -> None:
    job = make("job", replicas=1, procs_per_replica=2, faults="kill:rank=0,round=11")
    job.start_all()
    job.finish()
    assert len(job.starts) == 2
    assert sorted(job.losses) == list(range(1, CONFIG.rounds + 1))
    others = [line for line in job.log(0).splitlines() if split(line)[0] is None]
    assert [line for line in others if not AGENT_OR_COORDINATOR.match(line)] == []


@pytest.mark.parametrize(
    ("fault", "told", "found"),
    [
        ("stop", "rank 1 has not run for", "it is stopped (SIGSTOP)"),
        ("hang", "rank 1 has sent no heartbeat for", 'faults.py", line'),
    ],
)
def test_a_rank_that_hangs_is_killed_and_its_report_says_where_it_was(
    make: Make, unbroken: str, fault: str, told: str, found: str
) -> None:
    job = make("job", faults=f"{fault}:rank=1,round=30", timeouts=PhaseTimeouts(training=3))
    job.start_all()
    job.finish()
    assert job.digest == unbroken
    (failure,) = job.termination(0).rank_failures
    assert failure.exit_code == ExitCode.HANG
    assert failure.message.startswith(told)
    assert found in job.log(1)


def test_a_rank_that_crashes_again_and_again_ends_its_pod(make: Make) -> None:
    job = make("job", trainer=CONFIG.model_copy(update={"rounds": 100_000}))
    job.start_all()
    job.until(lambda: job.round(1) > 3, "progress")
    killed: set[int] = set()

    def kill_another() -> bool:
        status = job.status(1)
        pid = status.ranks[0].pid if status is not None and status.ranks else None
        if pid is not None and pid not in killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        return len(killed) == 4

    job.until(kill_another, "four processes of a rank")
    assert job.wait(1) == 137
    job.until(lambda: [failure.rank for failure in failures(job)] == [1, 1, 1], "three reports")


@pytest.mark.parametrize(("fault", "code"), [("raise", ExitCode.USER_ERROR), ("exit", ExitCode.BAD_CONFIGURATION)])
def test_errors_of_the_code_and_the_configuration_end_the_pod(make: Make, fault: str, code: ExitCode) -> None:
    job = make("job", faults=f"{fault}:rank=1,round=5" + ",code=78" * (fault == "exit"))
    job.start_all()
    assert job.wait(1) == code
    assert failures(job) == ()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_standby_that_is_lost_or_stopped_is_made_again(make: Make, unbroken: str, number: signal.Signals) -> None:
    job = make("job", faults="kill:rank=1,round=30")
    job.start_all()
    job.until(lambda: job.round(1) > 3, "progress")
    rank = job.rank_pid(1)
    (standby,) = [pid for pid in job.standbys(1) if pid != rank]
    os.kill(standby, number)
    job.finish()
    assert job.digest == unbroken


def test_nothing_is_left_of_a_replica_that_is_stopped_while_its_standby_starts(make: Make) -> None:
    job = make("job")
    agent = job.start(0)
    job.until(lambda: job.get(0, "/status")[0] == 200, "an agent")
    agent.terminate()
    assert job.wait(0) == ExitCode.PREEMPTED
    assert job.processes(0) == []


def test_an_image_in_which_no_rank_can_start_ends_the_replica(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('it is broken')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    job = make("broken", replicas=1)
    job.start_all()
    assert job.wait(0) == 1
    assert job.termination(0).message.endswith("ended 5 times before one was: the replica's log says why")
    assert "ImportError: it is broken" in job.log(0)
