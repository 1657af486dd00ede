import torch

from ringtrain.checkpoint.outline import first_difference, outline
from ringtrain.checkpoint.tree import Piece, Unread


def test_it_is_the_same_whatever_was_read_of_a_tensor() -> None:
    whole = torch.zeros(4, 2, dtype=torch.bfloat16)
    for leaf in (whole, Piece(whole[1:3], 1, 4), Unread((4, 2), torch.bfloat16)):
        assert outline({"a": leaf, "extra": "text"}) == {"a": "bfloat16 (4, 2)"}


def test_the_first_difference_in_our_order_is_found() -> None:
    ours = outline({"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(())})
    assert first_difference(ours, dict(reversed(ours.items()))) is None
    theirs = ours | {"b": "float32 (4,)", "c": "float64 ()"}
    assert first_difference(theirs, ours) == ("b", "float32 (4,)", "float32 (3,)")
    assert first_difference({"a": ours["a"]}, ours) == ("b", "absent", "float32 (3,)")
    assert first_difference(ours | {"d": "int64 (1,)"}, ours) == ("d", "int64 (1,)", "absent")
