"""The layout of gradients in buckets: pure, derived from the model's parameters and one number alone."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    name: str
    numel: int
    dtype: torch.dtype

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
    slices: tuple[Slice, ...]

    @property
    def numel(self) -> int:
        return sum(part.numel for part in self.slices)


def parameter_infos(model: nn.Module) -> tuple[ParameterInfo, ...]:
    """The parameters that get gradients, each once, in the model's order."""
    return tuple(
        ParameterInfo(name, parameter.numel(), parameter.dtype)
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    )


def layout(parameters: Sequence[ParameterInfo], bucket_bytes: int) -> tuple[Bucket, ...]:
    """Fills buckets of at most `bucket_bytes` in reverse order, as gradients become ready in a backward pass.

    One dtype to a bucket; a parameter larger than a bucket has one of its own. Buckets are in the order in which their
    last gradients are expected.
    """
    if bucket_bytes <= 0:
        raise ValueError(f"a bucket of {bucket_bytes} bytes: bucketMegabytes must be above zero")
    closed: list[tuple[int, list[ParameterInfo]]] = []  # With the place of its last parameter.
    filling: dict[torch.dtype, tuple[int, list[ParameterInfo]]] = {}
    for place, parameter in enumerate(reversed(parameters)):
        members = filling[parameter.dtype][1] if parameter.dtype in filling else []
        if members and sum(member.bytes for member in members) + parameter.bytes > bucket_bytes:
            closed.append(filling[parameter.dtype])
            members = []
        filling[parameter.dtype] = (place, [*members, parameter])
    closed += filling.values()
    return tuple(_bucket(members) for _, members in sorted(closed, key=lambda entry: entry[0]))


def _bucket(members: Sequence[ParameterInfo]) -> Bucket:
    slices, offset = [], 0
    for member in members:
        slices.append(Slice(member.name, offset, member.numel))
        offset += member.numel
    return Bucket(members[0].dtype, tuple(slices))


def digest(buckets: Iterable[Bucket]) -> str:
    """Names a layout: equal layouts, equal digests, in every process and release. Kept in checkpoints."""
    plain = [[str(bucket.dtype), [[part.name, part.numel] for part in bucket.slices]] for bucket in buckets]
    return hashlib.blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()
