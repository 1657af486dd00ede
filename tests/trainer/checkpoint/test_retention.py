import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.retention import superfluous
from ringtrain.contract.generation import Generation

generations = st.builds(Generation, st.integers(0, 2), st.integers(0, 2))
checkpoints = st.sets(st.builds(CheckpointName, generations, st.integers(1, 12)))
keeps = st.integers(1, 5)


@given(checkpoints, st.data(), keeps, st.none() | st.integers(1, 13))
def test_what_goes_and_what_stays(
    committed: set[CheckpointName], data: st.DataObject, keep: int, keep_every: int | None
) -> None:
    valid = data.draw(st.sets(st.sampled_from(sorted(committed)))) if committed else set()
    gone = superfluous(committed, valid, keep, keep_every)
    assert gone == sorted(gone, reverse=True)
    assert set(gone) <= committed
    stay = valid - set(gone)
    # The newest valid ones stay, and of the others those of multiples, and no more.
    newest = sorted(valid, reverse=True)[:keep]
    assert stay == {name for name in valid if name in newest or (keep_every and name.round % keep_every == 0)}
    # Whatever goes is older than everything that counts as kept, and that is as much as was asked for.
    assert not gone or (len(newest) == keep and max(gone) < min(newest))


@given(checkpoints, keeps, st.none() | st.integers(1, 13))
def test_once_it_is_done_nothing_is_left_to_do(
    committed: set[CheckpointName], keep: int, keep_every: int | None
) -> None:
    stay = committed - set(superfluous(committed, committed, keep, keep_every))
    assert superfluous(stay, stay, keep, keep_every) == []


@given(checkpoints, st.data(), keeps)
def test_multiples_stay_even_when_they_cannot_be_read_now(
    committed: set[CheckpointName], data: st.DataObject, keep: int
) -> None:
    valid = data.draw(st.sets(st.sampled_from(sorted(committed)))) if committed else set()
    assert all(name.round % 3 for name in superfluous(committed, valid, keep, 3))


@pytest.mark.parametrize(
    ("keep", "keep_every", "message"),
    [(0, None, "keep is 0: at least the newest"), (1, 0, "keep_every is 0: expected a number of rounds")],
)
def test_numbers_below_one_are_refused(keep: int, keep_every: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        superfluous([], [], keep, keep_every)
