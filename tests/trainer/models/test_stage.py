import pytest

from ringtrain.models.stage import Stage, cut, of_rank


def test_a_model_is_cut_at_the_boundaries() -> None:
    assert cut(8, (3, 5)) == (Stage(0, 3, 0, 3), Stage(1, 3, 3, 5), Stage(2, 3, 5, 8))
    assert cut(4, ()) == (Stage(0, 1, 0, 4),)


@pytest.mark.parametrize("boundaries", [(0,), (4,), (5,), (2, 2), (3, 1)])
def test_every_stage_has_a_sublayer(boundaries: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="leave a stage without any of the 4 sub-layers"):
        cut(4, boundaries)


def test_ends_embed_and_give_logits() -> None:
    first, middle, last = cut(6, (2, 4))
    assert [(stage.first, stage.last) for stage in (first, middle, last)] == [
        (True, False),
        (False,) * 2,
        (False, True),
    ]
    assert str(first) == "stage 0: embedding, sub-layers 0-1"
    assert str(last) == "stage 2: sub-layers 4-5, head"


def test_stages_go_round_the_ranks() -> None:
    stages = cut(8, (2, 4, 6))
    assert [stage.index for stage in of_rank(stages, 1, 2)] == [1, 3]
    assert [stage.index for stage in of_rank(stages, 2, 4)] == [2]
