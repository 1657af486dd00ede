"""What state a checkpoint holds, without reading its tensors."""

import math
from pathlib import Path

from ringtrain.checkpoint.integrity import why_damaged
from ringtrain.checkpoint.listing import Damaged
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.part import PREFIX, Chunk, Part, read_part
from ringtrain.contract.model import ContractModel

_OBJECTS = "objects"


class Group(ContractModel):
    """The tensors of the model, of the optimizer, or of an object of training code of one's own."""

    name: str
    tensors: int
    values: int
    """Of all these tensors: parameters, if it is a model."""
    dtypes: tuple[str, ...]
    """Such as float32."""


def contents(directory: Path, manifest: Manifest) -> tuple[Group, ...]:
    """The replicated state's tensors, by what they belong to. Raises Damaged."""
    chunks: dict[str, Chunk] = {}
    for file in manifest.files:
        if file.path.startswith(PREFIX):
            chunks |= _part(directory, file).chunks
    groups: dict[str, list[Chunk]] = {}
    for path, chunk in sorted(chunks.items()):
        groups.setdefault(_owner(path), []).append(chunk)
    return tuple(
        Group(
            name=name,
            tensors=len(found),
            values=sum(math.prod(chunk.whole_shape) for chunk in found),
            dtypes=tuple(sorted({chunk.dtype.removeprefix("torch.") for chunk in found})),
        )
        for name, found in groups.items()
    )


def _part(directory: Path, file: ManifestFile) -> Part:
    problem = why_damaged(directory / file.path, file, lambda: None)
    if problem:
        raise Damaged(f"{directory.name}: {problem}")
    try:
        return read_part(directory / file.path)
    except (OSError, ValueError) as error:
        raise Damaged(f"{directory.name}: file {file.path} tells of no tensors: {error}") from error


def _owner(path: str) -> str:
    first, *rest = path.split("/")
    return rest[0] if first == _OBJECTS and rest else first
