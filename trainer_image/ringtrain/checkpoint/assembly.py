"""Tensors put together from the files that hold their rows."""

from collections.abc import Callable
from typing import TypeAlias

import torch

from ringtrain.checkpoint.layout import Whole
from ringtrain.checkpoint.part import Chunk
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.tree import Piece, Unread

Wanted: TypeAlias = Callable[[str], bool | slice]
"""What to read of the tensor at a path: all (True), nothing (False), or some rows (a slice without a step)."""


def everything(_path: str) -> bool:
    """All of all tensors."""
    return True


class Assembly:
    """What is wanted of one tensor, filled in chunk by chunk."""

    def __init__(self, path: str, whole: Whole, wanted: bool | slice) -> None:
        self._path = path
        self._whole = whole
        self._wanted = wanted
        span = wanted if isinstance(wanted, slice) else slice(None) if wanted else slice(0)
        self._rows = range(whole.row_count)[span]
        if self._rows.step != 1:
            raise ValueError(f"rows {wanted} of tensor {path} cannot be read: a slice without a step can")
        shape = whole.shape if wanted is True else (len(self._rows), *whole.shape[1:])
        self._tensor = torch.empty(shape, dtype=whole.dtype)
        self._filled: set[tuple[int, int]] = set()

    @property
    def needed(self) -> tuple[Chunk, ...]:
        """The chunks that hold a wanted row."""
        return tuple(c for c in self._whole.chunks if max(c.offset, self._rows.start) < min(c.end, self._rows.stop))

    def fill(self, chunk: Chunk, tensor: torch.Tensor) -> None:
        """Copies what is wanted of `tensor`, which lies in `chunk`.

        Raises DamagedFile when the chunk is another, or when the same rows were other ones in another chunk.
        """
        if (str(tensor.dtype), tuple(tensor.shape)) != (chunk.dtype, chunk.shape):
            raise DamagedFile(f"tensor {self._path} of rank {chunk.rank} has another shape or dtype than was told")
        start, stop = max(chunk.offset, self._rows.start), min(chunk.end, self._rows.stop)
        target = _in_rows(self._tensor)[start - self._rows.start : stop - self._rows.start]
        source = _in_rows(tensor)[start - chunk.offset : stop - chunk.offset]
        if (start, stop) not in self._filled:
            self._filled.add((start, stop))
            target.copy_(source)
        elif not torch.equal(target.view(torch.uint8), source.view(torch.uint8)):
            raise DamagedFile(f"parts of the state differ at {self._path}")

    def result(self) -> torch.Tensor | Piece | Unread:
        """Once all needed chunks are filled in."""
        if self._wanted is False:
            return Unread(self._whole.shape, self._whole.dtype)
        if self._wanted is True:
            return self._tensor
        return Piece(self._tensor, self._rows.start, self._whole.row_count)


def _in_rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dim() else tensor.reshape(1)
