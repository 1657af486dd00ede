"""Where the tensors of the replicated state lie: every group of ranks that hold the same part of it has told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ringtrain.checkpoint.part import Chunk, Part, row_count
from ringtrain.checkpoint.partition import partition
from ringtrain.checkpoint.shard import DTYPES
from ringtrain.checkpoint.structure import merge
from ringtrain.checkpoint.tree import Piece, rows

_NAMED = {str(dtype): dtype for dtype in DTYPES}


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor of all parts together."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    """All rows: each lies in one chunk, or in several of the same rows."""

    @property
    def row_count(self) -> int:
        return row_count(self.shape)


def divide(tensors: Mapping[str, torch.Tensor | Piece], structure: str, holders: Sequence[int]) -> Part:
    """The part of which `holders` all have the same: each of them is to write about as many bytes of it."""
    sizes = {path: rows(leaf).numel() * rows(leaf).element_size() for path, leaf in tensors.items()}
    division = zip(holders, partition(sizes, len(holders)), strict=True)
    chunks = {path: _chunk(tensors[path], rank) for rank, paths in division for path in paths}
    return Part(holders=tuple(holders), structure=structure, chunks=chunks)


def join(parts: Sequence[Part], world_size: int) -> tuple[str, dict[str, Whole]]:
    """(structure of the whole state, its tensors by path)

    Raises ValueError, naming the path, when the parts do not make one state of so many ranks.
    """
    holders = sorted(rank for part in parts for rank in part.holders)
    if holders != list(range(world_size)):
        raise ValueError(f"expected parts of the ranks 0..{world_size - 1}, found those of {holders}")
    chunks: dict[str, list[Chunk]] = {}
    for part in parts:
        for path, chunk in part.chunks.items():
            chunks.setdefault(path, []).append(chunk)
    return merge(part.structure for part in parts), {path: _whole(path, found) for path, found in chunks.items()}


def _chunk(leaf: torch.Tensor | Piece, rank: int) -> Chunk:
    shape = tuple(rows(leaf).shape)
    offset, total = (leaf.offset, leaf.total) if isinstance(leaf, Piece) else (0, row_count(shape))
    return Chunk(rank=rank, dtype=str(rows(leaf).dtype), shape=shape, offset=offset, total=total)


def _whole(path: str, chunks: Sequence[Chunk]) -> Whole:
    if len({(chunk.dtype, chunk.total, len(chunk.shape), chunk.shape[1:]) for chunk in chunks}) > 1:
        raise ValueError(f"tensor {path} has other shapes or dtypes in other parts of the state")
    dtype, total = chunks[0].dtype, chunks[0].total
    if dtype not in _NAMED:
        raise ValueError(f"tensor {path} has the unknown dtype {dtype}")
    spans = sorted({(chunk.offset, chunk.end) for chunk in chunks if chunk.offset < chunk.end})
    end = 0
    for start, stop in [*spans, (total, total)]:
        if start > end:
            raise ValueError(f"tensor {path} lacks rows {end}..{start - 1}")
        if start < end:
            raise ValueError(f"tensor {path} has row {start} twice")
        end = stop
    return Whole(_NAMED[dtype], chunks[0].whole_shape, tuple(chunks))
