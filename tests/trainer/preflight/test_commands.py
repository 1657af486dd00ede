"""Machines are checked before commands, whether these open sessions or are scripts for torchrun."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.contract.preflight import Preflight
from support.loopback_job import LoopbackJob, loop_command

pytestmark = pytest.mark.distributed

SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(3)
dist.all_reduce(total)
dist.destroy_process_group()
print(f"the sum is {total[0]:g}", flush=True)
"""
TORCHRUN = (sys.executable, "-c", SCRIPT)
PASSED = "pre-flight check: all 3 ranks are fit"

MakeJob = Callable[..., LoopbackJob]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[MakeJob]:
    made: list[LoopbackJob] = []

    def build(**settings: Any) -> LoopbackJob:
        made.append(LoopbackJob(tmp_path, preflight=Preflight(slower_than=8), **settings))
        return made[-1]

    yield build
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("command", "said"), [(TORCHRUN, "the sum is 3"), (loop_command(5), "rank 0 finished in generations 0.0")]
)
def test_fit_machines_run_the_command(job: MakeJob, command: tuple[str, ...], said: str) -> None:
    running = job(command=command)
    running.start_all()
    assert [running.wait(replica) for replica in range(3)] == [0, 0, 0], running.log(0)
    assert running.log(0).count(PASSED) == 1
    assert running.log(0).index(PASSED) < running.log(0).index(said)


def test_ranks_of_one_replica_print_under_their_prefixes(job: MakeJob) -> None:
    running = job(replicas=1, procs_per_replica=2, command=TORCHRUN)
    running.start_all()
    assert running.wait(0) == 0, running.log(0)
    assert "pre-flight check: all 2 ranks are fit" in running.printed(0)
    assert [running.printed(rank).count("the sum is 2\n") for rank in range(2)] == [1, 1]


@pytest.mark.parametrize(
    ("fault", "said", "limit"), [("wrong", "its matrix product is wrong", 60), ("hang", "in phase checking", 10)]
)
def test_an_unfit_machine_is_replaced_before_any_command_has_begun(
    job: MakeJob, fault: str, said: str, limit: float
) -> None:
    running = job(command=TORCHRUN, faults=f"{fault}:rank=1,round=0", timeouts=PhaseTimeouts(checking=limit))
    running.start_all()
    assert running.wait(1) == ExitCode.UNFIT
    assert said in running.termination(1).message
    assert "the sum is" not in running.log(0)
    running.start(1, epoch=1)
    assert [running.wait(replica) for replica in range(3)] == [0, 0, 0], running.log(0)
    assert running.log(0).count(PASSED) == 1


def test_a_new_pod_among_sessions_is_checked_with_them(job: MakeJob) -> None:
    running = job(command=loop_command(100))
    running.start_all()
    running.until(lambda: running.round(1) > 1, "training")
    running.kill(1)
    running.start(1, epoch=1)
    assert [running.wait(replica) for replica in range(3)] == [0, 0, 0], running.log(0)
    assert running.log(0).count(PASSED) == 2
