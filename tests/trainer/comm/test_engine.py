"""The engine over real connections: the bits of the simulation, and what happens when a member is lost."""

import signal

import pytest
import torch

from ringtrain.comm.codec.build import build_codecs
from ringtrain.contract.communication import Algorithm, CommunicationConfig
from trainer.comm import engine_bodies as bodies
from trainer.comm.ranks import Crew, Ranks
from trainer.comm.test_lane import World

pytestmark = pytest.mark.distributed

CONFIGS = {
    "none": CommunicationConfig(codec="none"),
    "bf16": CommunicationConfig(codec="bf16"),
    "zfp": CommunicationConfig(codec="zfp"),
    "int4": CommunicationConfig(codec="int4", rotate=True),
}
by_algorithm = pytest.mark.parametrize("algorithm", ["ring", "direct"])


def simulated(machines: int, processes: int, algorithm: str, config: CommunicationConfig, numel: int) -> list[str]:
    digests = []
    for number in range(bodies.SEGMENTS):
        world = World(machines, processes, algorithm, build_codecs(config).main, numel, 0)
        for rank, values in enumerate(world.outputs):
            values[:numel] = bodies.gradient(rank, numel, number)
        world.all_reduce()
        world.check_same_bits()
        digests.append(bodies.digest(world.outputs[0]))
    return digests


@by_algorithm
@pytest.mark.parametrize(("machines", "processes"), [(2, 1), (3, 1), (2, 2), (1, 3), (1, 1)])
def test_the_bits_are_those_of_the_simulation(crew: Crew, machines: int, processes: int, algorithm: Algorithm) -> None:
    work = list(zip(CONFIGS.values(), (1009, 5000, 70_000, 64), strict=True))
    size = machines * processes
    results = crew.run(size, bodies.summed, processes, algorithm, work)
    assert results == [[simulated(machines, processes, algorithm, *each) for each in work]] * size


@by_algorithm
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_member_holds_nobody(processes: int, algorithm: Algorithm, fault: signal.Signals) -> None:
    """Killed or stopped in the middle of sums: the others leave when told to, and go on without it."""
    size, lost = 4, 2
    others = [rank for rank in range(size) if rank != lost]
    with Ranks() as ranks:
        for rank in range(size):
            ranks.start(rank, bodies.keep_summing, size, processes, algorithm)
        assert [ranks.hear(rank) for rank in range(size)] == ["ready"] * size
        ranks.signal(lost, fault)
        # As the coordinator does on any loss; neighbors of the dead may have noticed before.
        for place, rank in enumerate(others):
            ranks.say(rank, (len(others), place))
        assert [ranks.hear(rank) for rank in others] == ["left"] * 3
        results = [ranks.hear(rank) for rank in others]
        assert [threads for threads, _ in results] == [[]] * 3
        assert len({digest for _, digest in results}) == 1
        assert [ranks.exit_code(rank) for rank in others] == [0] * 3


@pytest.mark.parametrize(("algorithm", "phases"), [("ring", 4), ("direct", 2)])
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_member_lost_in_any_phase_holds_nobody_though_nobody_tells(
    algorithm: Algorithm, phases: int, fault: signal.Signals
) -> None:
    """In each hop of the ring, and on each way of direct: the time-out ends the others' waits."""
    size, lost, others = 3, 1, (0, 2)
    with Ranks() as ranks:
        for rank in others:
            ranks.start(rank, bodies.survive_all, size, algorithm, phases)
        for phase in range(phases):
            ranks.start(lost, bodies.fall_in_phase, size, algorithm, phase, fault)
            assert [ranks.hear(rank) for rank in others] == ["left"] * 2
        assert [ranks.hear(rank) for rank in others] == [[[]] * phases] * 2
        assert [ranks.exit_code(rank) for rank in others] == [0, 0]


def test_gradients_differ_between_ranks() -> None:
    assert not torch.equal(bodies.gradient(0, 10), bodies.gradient(1, 10))
