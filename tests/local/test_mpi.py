"""Whole jobs on this machine whose replicas sum over MPI, with faults: all restart, and only the cause is counted."""

import re

import pytest

from local.harness import Finished, Runs

pytest.importorskip("mpi4py", reason="mpi4py is not installed: install ringtrain[mpi]")
pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]


def test_mpi_changes_nothing_in_the_result(plain: Finished, runs: Runs) -> None:
    finished = runs.start(name="mpi", inter="mpi").finish()
    assert finished.code == 0, finished.output
    assert finished.fact("restarts") == "0, counted against the budget: 0"
    assert finished.fact("digest") == plain.fact("digest")


@pytest.mark.parametrize(("fault", "reason"), [("kill", r"Signal9 \(exit code 137"), ("stop", r"Hang \(exit code 82")])
def test_a_lost_rank_ends_all_and_is_counted_once(plain: Finished, runs: Runs, fault: str, reason: str) -> None:
    name = f"mpi-{fault}"
    lost = runs.start("--fault", f"{fault}:rank=1,round=8", name=name, inter="mpi", training_timeout=5).finish()
    assert lost.code == 0, lost.output
    assert lost.fact("restarts") == "1, counted against the budget: 1"
    failures = "\n".join(re.findall(r"^failure .*$", lost.output, re.MULTILINE))
    assert re.search(rf"rank 1 {name}-1-0 {reason}\)", failures)
    for rank in (0, 2):
        assert f"rank {rank} {name}-{rank}-0 EndedWithPeer (exit code 85)" in failures
    assert lost.fact("digest") == plain.fact("digest")
