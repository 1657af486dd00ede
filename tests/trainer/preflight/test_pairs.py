from hypothesis import given
from hypothesis import strategies as st

from ringtrain.preflight.pairs import peers, ring_steps


def test_neighbors_on_a_ring() -> None:
    assert ring_steps([5]) == []
    assert ring_steps([5, 7]) == [[(5, 7)]]
    assert ring_steps([5, 7, 9]) == [[(5, 7)], [(7, 9)], [(9, 5)]]
    assert ring_steps([0, 1, 2, 3]) == [[(0, 1), (2, 3)], [(1, 2), (3, 0)]]


@given(st.integers(1, 7), st.integers(1, 4))
def test_ranks_agree_on_every_step(machines: int, processes: int) -> None:
    size = machines * processes
    of = [peers(size, processes, rank) for rank in range(size)]
    assert len({len(steps) for steps in of}) == 1
    for rank, steps in enumerate(of):
        assert all(of[peer][step] == rank for step, peer in enumerate(steps) if peer is not None)
        met = [peer for peer in steps if peer is not None]
        ring = machines if machines > 1 else processes
        assert len(met) == len(set(met)) == min(2, ring - 1)
        assert machines == 1 or all(peer // processes != rank // processes for peer in met)
