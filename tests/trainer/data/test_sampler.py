import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtrain.data.sampler import Sampler, epoch_order


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 1000), st.integers(1, 200))
def test_an_epoch_reads_everything_once(seed: int, epoch: int, sequences: int) -> None:
    assert sorted(epoch_order(seed, epoch, sequences)) == list(range(sequences))


def test_epochs_and_seeds_differ() -> None:
    orders = {tuple(epoch_order(seed, epoch, 50)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_the_order_is_the_one_of_former_releases() -> None:
    assert epoch_order(7, 2, 10).tolist() == [6, 0, 2, 4, 3, 1, 7, 5, 9, 8]


@settings(deadline=None)
@given(
    st.integers(8, 60),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2)), min_size=1, max_size=12),
    st.integers(0, 5),
)
def test_no_repetition_however_the_world_changes(sequences: int, worlds: list[tuple[int, int]], seed: int) -> None:
    """Each entry of `worlds`: one micro-batch of (world size, sequences per rank)."""
    position = 0
    read: list[int] = []
    for world_size, per_rank in worlds:
        for rank in range(world_size):
            # A new one each time: a sampler's own history must not matter.
            draws = Sampler(sequences, seed).draw(position, rank, world_size, per_rank)
            assert [draw.position for draw in draws] == list(range(len(read), len(read) + per_rank))
            read += [draw.sequence for draw in draws]
        position += world_size * per_rank
    for start in range(0, len(read), sequences):
        epoch = read[start : start + sequences]
        assert epoch == epoch_order(seed, start // sequences, sequences)[: len(epoch)].tolist()


def test_without_shuffling_every_epoch_is_in_order() -> None:
    draws = Sampler(3, seed=0, shuffle=False).draw(position=2, rank=1, world_size=2, per_rank=2)
    assert [(draw.position, draw.sequence) for draw in draws] == [(4, 1), (5, 2)]


def test_an_impossible_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 3 of a world of 3"):
        Sampler(10, 0).draw(0, 3, 3, 1)
