"""The layout of gradients in buckets: pure, derived from the model's parameters and one number alone."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from ringtrain.comm.local import is_sharded, local

SMALL_VALUES = 1024
"""Parameters of fewer values are not compressed (as torch_cgx does)."""
ALIGNMENT = 128
"""Compressed parameters begin at its multiples: so no codec's block holds two of them, and the noise of one's large
gradients never reaches another's small ones."""
TAIL = 4
"""The bucket that is completed last is so many times smaller: nothing hides its sum."""


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    name: str
    shape: tuple[int, ...]
    """Of the whole parameter."""
    dtype: torch.dtype
    rows: int | None = None
    """How many of them this rank holds when it is sharded; else None."""

    @property
    def numel(self) -> int:
        """What this rank holds."""
        return math.prod(self.shape) if self.rows is None else self.rows * math.prod(self.shape[1:])

    @property
    def exact(self) -> bool:
        """It is never compressed: vectors (norms, biases) and small matrices are sensitive, and weigh little."""
        return len(self.shape) < 2 or math.prod(self.shape) < SMALL_VALUES

    @property
    def bytes(self) -> int:
        return self.numel * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Slice:
    """Where one parameter's gradient lies in its bucket, in elements."""

    name: str
    offset: int
    numel: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are reduced at once, as one flat tensor."""

    dtype: torch.dtype
    exact: bool
    """Never compressed."""
    slices: tuple[Slice, ...]

    @property
    def numel(self) -> int:
        """The gaps between slices included."""
        return self.slices[-1].offset + self.slices[-1].numel if self.slices else 0

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """(begin, end) of what lies between slices."""
        pairs = pairwise(self.slices)
        return tuple((a.offset + a.numel, b.offset) for a, b in pairs if b.offset > a.offset + a.numel)


def parameter_infos(model: nn.Module) -> tuple[ParameterInfo, ...]:
    """The parameters that get gradients, each once, in the model's order."""
    return tuple(
        ParameterInfo(
            name,
            tuple(parameter.shape),
            parameter.dtype,
            len(local(parameter)) if is_sharded(parameter) else None,
        )
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    )


def layout(parameters: Sequence[ParameterInfo], bucket_bytes: int) -> tuple[Bucket, ...]:
    """Buckets of at most `bucket_bytes`, in the order in which a backward pass completes them.

    One dtype to a bucket, and either compressed or exact parameters; a parameter larger than a bucket has one of its
    own. What the end of the backward pass completes is in smaller buckets (see TAIL).
    """
    if bucket_bytes <= 0:
        raise ValueError(f"a bucket of {bucket_bytes} bytes: bucketMiB must be above zero")
    closed: list[tuple[int, list[ParameterInfo]]] = []  # With the place of its first parameter in the model.
    filling: dict[tuple[torch.dtype, bool], tuple[int, list[ParameterInfo]]] = {}
    limits: dict[tuple[torch.dtype, bool], int] = {}
    for place, parameter in enumerate(parameters):
        kind = (parameter.dtype, parameter.exact)
        first, members = filling.get(kind, (place, []))
        limit = limits.setdefault(kind, bucket_bytes // TAIL)
        if members and sum(member.bytes for member in members) + parameter.bytes > limit:
            closed.append((first, members))
            first, members = place, []
            limits[kind] = bucket_bytes
        filling[kind] = (first, [*members, parameter])
    closed += filling.values()
    return tuple(_bucket(members[::-1]) for _, members in sorted(closed, key=lambda entry: entry[0], reverse=True))


def _bucket(members: Sequence[ParameterInfo]) -> Bucket:
    alignment = 1 if members[0].exact else ALIGNMENT
    slices, offset = [], 0
    for member in members:
        slices.append(Slice(member.name, offset, member.numel))
        offset += -(-member.numel // alignment) * alignment
    return Bucket(members[0].dtype, members[0].exact, tuple(slices))


def digest(buckets: Iterable[Bucket]) -> str:
    """Names a layout: equal layouts, equal digests, in every process and release. Kept in checkpoints."""
    plain = [
        [str(bucket.dtype), bucket.exact, [[part.name, part.numel] for part in bucket.slices]] for bucket in buckets
    ]
    return hashlib.blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()
