"""Sums between machines over MPI: the bits of the simulation, and what becomes of those who lose a member."""

import re
import signal

import pytest

from ringtrain.contract.communication import Algorithm
from trainer.comm import mpi_bodies as bodies
from trainer.comm.ranks import Ranks
from trainer.comm.test_engine import CONFIGS, by_algorithm, simulated

pytest.importorskip("mpi4py", reason="mpi4py is not installed: install ringtrain[mpi]")
pytestmark = pytest.mark.distributed


@by_algorithm
@pytest.mark.parametrize(("machines", "processes"), [(2, 1), (3, 1), (2, 2), (1, 3)])
def test_the_bits_are_those_of_the_simulation(machines: int, processes: int, algorithm: Algorithm) -> None:
    work = list(zip(CONFIGS.values(), (1009, 5000, 70_000, 64), strict=True))
    expected = [simulated(machines, processes, algorithm, config, numel) for config, numel in work]
    with Ranks() as ranks:
        results = ranks.run(machines * processes, bodies.summed, processes, algorithm, work)
    for rank, (entered, digests, addresses) in enumerate(results):
        assert digests == expected
        assert entered == (machines > 1)
        # On the interface that has the replica's address, and on no other.
        by_gloo = {f"127.9.0.{rank + 1}"}
        assert addresses - by_gloo == ({"127.0.0.1"} if entered else set())


@by_algorithm
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("phase", ["forming", "summing"])
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_member_holds_nobody(processes: int, algorithm: Algorithm, phase: str, fault: signal.Signals) -> None:
    """The others leave when told to, and know that they cannot go on in this process."""
    size, lost = 4, 2
    others = [rank for rank in range(size) if rank != lost]
    with Ranks() as ranks:
        for rank in range(size):
            ranks.start(rank, bodies.lose_one, size, processes, algorithm, lost, phase)
        assert [ranks.hear(rank) for rank in range(size)] == ["ready"] * size
        ranks.signal(lost, fault)
        for place, rank in enumerate(others):
            ranks.say(rank, (len(others), place))
        assert [ranks.hear(rank) for rank in others] == ["left"] * 3
        for threads, refusals in [ranks.hear(rank) for rank in others]:
            assert threads == []
            assert ["only once in a process" in refusal for refusal in refusals] == [True]
        assert [ranks.exit_code(rank) for rank in others] == [0] * 3


def test_an_operation_that_fails_surfaces_where_it_is_waited_for() -> None:
    with Ranks() as ranks:
        assert ranks.run(1, bodies.misuse) == [["PeerLost", "Abandoned", "Abandoned"]]


@pytest.mark.parametrize(
    ("variables", "first", "reason"),
    [
        ({}, "import sys; sys.modules['mpi4py'] = None", "this image has no MPI: .* Install ringtrain"),
        ({"MPI4PY_LIBMPI": "/nonexistent/libmpi.so"}, "", "this image has no MPI: .* Install ringtrain"),
        ({}, "from mpi4py import MPI", "has started MPI before Ringtrain could"),
        ({"FI_PROVIDER": "nonsense"}, "", "MPI does not start: .*Correct the image or the variables FI_"),
    ],
)
def test_what_cannot_work_is_a_bad_configuration(variables: dict[str, str], first: str, reason: str) -> None:
    with Ranks() as ranks:
        results = ranks.run(2, bodies.refused, variables, first)
    for result in results:
        assert re.search(reason, result, re.DOTALL)
        assert result.startswith("spec.communication.inter is mpi, but ")
        assert result.endswith("or set spec.communication.inter to gloo")
