import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.checkpoint.layout import divide, join
from ringtrain.checkpoint.part import Chunk, Part
from ringtrain.checkpoint.tree import Piece

spans = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=5)


def part(rank: int, offset: int, length: int, total: int) -> Part:
    chunk = Chunk(rank=rank, dtype="torch.float32", shape=(length, 2), offset=offset, total=total)
    return Part(holders=(rank,), structure='["tensor","w"]', chunks={"w": chunk})


@given(spans, st.integers(0, 10))
def test_rows_make_a_whole_when_each_lies_in_one_span(spans: list[tuple[int, int]], total: int) -> None:
    parts = [part(rank, offset, length, total) for rank, (offset, length) in enumerate(spans)]
    # The same span twice counts once.
    found = sorted(row for offset, length in set(spans) for row in range(offset, offset + length))
    if found == list(range(total)):
        assert join(parts, len(parts))[1]["w"].shape == (total, 2)
    else:
        with pytest.raises(ValueError, match="tensor w "):
            join(parts, len(parts))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([part(0, 0, 2, 4), part(1, 3, 1, 4)], r"lacks rows 2\.\.2"),
        ([part(0, 1, 3, 4), part(1, 4, 0, 4)], r"lacks rows 0\.\.0"),
        ([part(0, 0, 2, 4), part(1, 2, 0, 4)], r"lacks rows 2\.\.3"),
        ([part(0, 0, 3, 4), part(1, 2, 2, 4)], "row 2 twice"),
        ([part(0, 0, 4, 4), part(1, 2, 4, 4)], "row 2 twice"),
        ([part(0, 0, 2, 4), part(1, 2, 3, 5)], "other shapes or dtypes"),
        ([part(0, 0, 4, 4), part(0, 0, 4, 4)], r"ranks 0\.\.1, found those of \[0, 0\]"),
        ([part(1, 0, 4, 4)], r"ranks 0\.\.1, found those of \[1\]"),
        ([part(0, 0, 4, 4), part(1, 0, 4, 4), part(2, 0, 4, 4)], r"found those of \[0, 1, 2\]"),
    ],
)
def test_what_is_wrong_is_named(parts: list[Part], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join(parts, 2)


def test_an_unknown_dtype_is_named() -> None:
    odd = part(0, 0, 4, 4)
    chunk = odd.chunks["w"].model_copy(update={"dtype": "torch.nn"})
    with pytest.raises(ValueError, match=r"tensor w has the unknown dtype torch\.nn"):
        join([odd.model_copy(update={"chunks": {"w": chunk}})], 1)


def test_holders_share_the_writing_and_the_text_reads_back() -> None:
    rows = Piece(torch.zeros(3, 2), 4, 9)
    tensors: dict[str, torch.Tensor | Piece] = {"a": torch.zeros(6), "b": rows, "scalar": torch.tensor(1)}
    divided = divide(tensors, "{}", [2, 5])
    assert sorted(divided.of_rank(2) + divided.of_rank(5)) == ["a", "b", "scalar"]
    assert all(divided.of_rank(rank) for rank in (2, 5))
    assert divided.of_rank(0) == ()
    piece, scalar = divided.chunks["b"], divided.chunks["scalar"]
    assert (piece.shape, piece.offset, piece.end, piece.total) == ((3, 2), 4, 7, 9)
    assert (scalar.shape, scalar.offset, scalar.end, scalar.total) == ((), 0, 1, 1)
    assert Part.model_validate_json(divided.to_json()) == divided


def test_only_who_holds_the_same_tensors_has_the_same_layout() -> None:
    tensors = {"a": torch.zeros(3), "b": torch.zeros(2, 2)}
    one = divide(tensors, '{"loss":1}', (0, 1)).layout
    assert divide({"b": torch.ones(2, 2), "a": torch.ones(3)}, '{"loss":2}', (0, 1)).layout == one
    assert divide(tensors | {"c": torch.zeros(1)}, "", (0, 1)).layout != one
    assert divide(tensors | {"a": torch.zeros(3, dtype=torch.float64)}, "", (0, 1)).layout != one
    assert divide(tensors, "", (0, 2)).layout != one
