"""What a checkpoint holds, and how it is laid out in files.

Replicated state is written once: each rank writes a part of its tensors, and rank 0 everything that is no tensor.
Local state is written whole by the rank it belongs to.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.partition import partition
from ringtrain.checkpoint.tree import Tree, flatten, unflatten
from ringtrain.contract.messages import ShardFile

_REPLICATED, _LOCAL = "replicated-", "local-"


@dataclass(frozen=True, slots=True)
class State:
    """A rank's state between two micro-batches."""

    replicated: Tree
    """The same on every rank: model, optimizer, round, data position."""
    local: Tree | None
    """This rank's own: random generators, residuals, gradients in mid-accumulation. None when it was read in a world
    of another size, where these have no owner."""


def write_files(directory: Path, state: State, rank: int, world_size: int, beat: Callable[[], None]) -> list[ShardFile]:
    """Writes and flushes this rank's files. Raises OSError; files may then be left (see `remove_files`)."""
    tensors, structure = flatten(state.replicated)
    sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}
    own = {name: tensors[name] for name in partition(sizes, world_size)[rank]}
    files = []
    if own or rank == 0:
        text = structure if rank == 0 else ""
        files.append(shard.write(directory / _file_name(_REPLICATED, rank), own, text, beat))
    local_tensors, local_structure = flatten(state.local)
    files.append(shard.write(directory / _file_name(_LOCAL, rank), local_tensors, local_structure, beat))
    return files


def remove_files(directory: Path, rank: int) -> None:
    """Removes this rank's files of a checkpoint that was given up, and the directory once it is empty.

    Raises OSError when files cannot be removed.
    """
    for kind in (_REPLICATED, _LOCAL):
        (directory / _file_name(kind, rank)).unlink(missing_ok=True)
    if directory.exists() and not any(directory.iterdir()):
        directory.rmdir()


def read_files(directory: Path, manifest: Manifest, rank: int, world_size: int, beat: Callable[[], None]) -> State:
    """Reads and verifies what this rank needs. Raises shard.DamagedFile."""
    tensors, structures = {}, []
    for file in manifest.files:
        if file.path.startswith(_REPLICATED):
            part, text = _read(directory, file, beat)
            tensors.update(part)
            structures.append(text)
    replicated = _unflatten(directory, tensors, "".join(structures))
    if manifest.world_size != world_size:
        return State(replicated, None)
    for file in manifest.of_rank(rank):
        if file.path.startswith(_LOCAL):
            return State(replicated, _unflatten(directory, *_read(directory, file, beat)))
    raise shard.DamagedFile(f"the manifest of {directory.name} names no local state of rank {rank}")


def _read(directory: Path, file: ManifestFile, beat: Callable[[], None]) -> tuple[dict[str, Tree], str]:
    return shard.read(directory / file.path, file.size, file.sha256, beat)


def _unflatten(directory: Path, tensors: dict[str, Tree], structure: str) -> Tree:
    try:
        return unflatten(tensors, structure)
    except (ValueError, KeyError) as error:
        raise shard.DamagedFile(f"the files of {directory.name} do not fit together: {error!r}") from error


def _file_name(kind: str, rank: int) -> str:
    return f"{kind}{rank:05d}.safetensors"
