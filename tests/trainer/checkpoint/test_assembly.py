from typing import Any

import pytest
import torch

from ringtrain.checkpoint.assembly import Assembly
from ringtrain.checkpoint.layout import Whole
from ringtrain.checkpoint.part import Chunk
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.tree import Piece, Unread
from trainer.checkpoint.checkpoints import same

ROWS = torch.arange(10.0).reshape(5, 2)


def chunk(offset: int, length: int) -> Chunk:
    return Chunk(rank=offset, dtype="torch.float32", shape=(length, 2), offset=offset, total=5)


# The rows 2 and 3 lie there twice.
WHOLE = Whole(torch.float32, (5, 2), (chunk(4, 1), chunk(2, 2), chunk(0, 2), chunk(2, 2)))


@pytest.mark.parametrize(
    ("wanted", "offsets", "result"),
    [
        (True, [4, 2, 0, 2], ROWS),
        (False, [], Unread((5, 2), torch.float32)),
        (slice(None), [4, 2, 0, 2], Piece(ROWS, 0, 5)),
        (slice(1, 3), [2, 0, 2], Piece(ROWS[1:3], 1, 5)),
        (slice(-1, None), [4], Piece(ROWS[4:], 4, 5)),
        (slice(2, 2), [], Piece(ROWS[2:2], 2, 5)),
        (slice(7, 9), [], Piece(ROWS[5:], 5, 5)),
    ],
)
def test_only_what_is_wanted_is_needed(wanted: bool | slice, offsets: list[int], result: Any) -> None:
    assembly = Assembly("w", WHOLE, wanted)
    assert [needed.offset for needed in assembly.needed] == offsets
    for needed in assembly.needed:
        assembly.fill(needed, ROWS[needed.offset : needed.end])
    assert same(assembly.result(), result)


def test_a_tensor_without_dimensions() -> None:
    only = Chunk(rank=0, dtype="torch.int64", shape=(), offset=0, total=1)
    assembly = Assembly("steps", Whole(torch.int64, (), (only,)), wanted=True)
    assert assembly.needed == (only,)
    assembly.fill(only, torch.tensor(7))
    assert same(assembly.result(), torch.tensor(7))


def test_the_same_rows_must_be_the_same_bits() -> None:
    assembly = Assembly("w", WHOLE, wanted=True)
    nan = torch.full((2, 2), float("nan"))
    assembly.fill(chunk(2, 2), nan)
    assembly.fill(chunk(2, 2), nan.clone())
    with pytest.raises(DamagedFile, match="differ at w"):
        assembly.fill(chunk(2, 2), -nan)


def test_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="slice without a step"):
        Assembly("w", WHOLE, slice(0, 4, 2))
