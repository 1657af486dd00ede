import pytest

from ringtrain.comm.topology import Topology


def test_who_talks_to_whom() -> None:
    topology = Topology.of(range(6), 2)
    assert topology.machines == ((0, 1), (2, 3), (4, 5))
    assert (topology.size, topology.processes) == (6, 2)
    assert [topology.machine_of(rank) for rank in range(6)] == [0, 0, 1, 1, 2, 2]
    assert topology.neighbors(3) == (2, 3)
    assert topology.twins(3) == (1, 3, 5)


@pytest.mark.parametrize("machines", [((0, 1), (2,)), ((),)])
def test_machines_are_of_one_size(machines: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="machines"):
        Topology(machines)


def test_ranks_fill_machines() -> None:
    with pytest.raises(ValueError, match="machines of different sizes"):
        Topology.of(range(5), 2)


@pytest.mark.parametrize(
    ("ranks", "processes", "machines"),
    [
        (range(0, 8, 2), 4, ((0, 2), (4, 6))),
        (range(1, 8, 4), 2, ((1,), (5,))),
        (range(1, 8, 2), 2, ((1,), (3,), (5,), (7,))),
    ],
)
def test_twins_of_a_stage_by_machine(ranks: range, processes: int, machines: tuple[tuple[int, ...], ...]) -> None:
    assert Topology.of(ranks, processes).machines == machines
