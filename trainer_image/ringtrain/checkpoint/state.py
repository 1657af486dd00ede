"""What a checkpoint holds, and how it is laid out in files.

Replicated state is written once: those that hold the same part of it divide its tensors among them, and the first of
them tells in a file of its own of all that is no tensor, and where the tensors lie. Local state is written whole by the
rank it belongs to.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.assembly import Assembly, Wanted, everything
from ringtrain.checkpoint.layout import Chunk, Part, divide, join
from ringtrain.checkpoint.manifest import Manifest
from ringtrain.checkpoint.tree import Tree, flatten, rows, unflatten
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile

_PART, _REPLICATED, _LOCAL = "part-", "replicated-", "local-"

_Beat: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class State:
    """A rank's state between two micro-batches."""

    replicated: Tree
    """The same on every rank that holds it: model, optimizer, round, data position. Where ranks hold parts of a model,
    their trees are parts of one tree, that of the whole model: what is read is that whole tree, on every rank."""
    local: Tree | None
    """This rank's own: random generators, residuals, gradients in mid-accumulation. A Piece comes back as its rows.
    None when it was read on another mesh, where these have no owner."""


def write_files(directory: Path, state: State, rank: int, holders: Sequence[int], beat: _Beat) -> list[ShardFile]:
    """Writes and flushes this rank's files; `holders` as in `Writer`.

    Raises OSError; files may then be left (see `remove_files`).
    """
    if rank not in holders:
        raise ValueError(f"rank {rank} is none of the holders of its own state, {list(holders)}: name all that hold it")
    tensors, structure = flatten(state.replicated)
    part = divide(tensors, structure, holders)
    local, local_structure = flatten(state.local)
    files = []
    if rank == holders[0]:
        files.append(shard.write(directory / _file_name(_PART, rank), {}, part.to_json(), beat))
    own = {path: rows(tensors[path]) for path in part.of_rank(rank)}
    if own:
        files.append(shard.write(directory / _file_name(_REPLICATED, rank), own, "", beat))
    own = {path: rows(leaf) for path, leaf in local.items()}
    files.append(shard.write(directory / _file_name(_LOCAL, rank), own, local_structure, beat))
    return files


def remove_files(directory: Path, rank: int) -> None:
    """Removes this rank's files of a checkpoint that was given up, and the directory once it is empty.

    Raises OSError when files cannot be removed.
    """
    for kind in (_PART, _REPLICATED, _LOCAL):
        (directory / _file_name(kind, rank)).unlink(missing_ok=True)
    if directory.exists() and not any(directory.iterdir()):
        directory.rmdir()


def read_files(
    directory: Path, manifest: Manifest, rank: int, mesh: Mesh, beat: _Beat, wanted: Wanted = everything
) -> State:
    """Reads and verifies what this rank of `mesh` needs; files without a wanted row are not opened.

    Raises shard.DamagedFile.
    """
    replicated = _read_replicated(directory, manifest, beat, wanted)
    if manifest.mesh != mesh:
        return State(replicated, None)
    tensors, structure = shard.read(*_listed(directory, manifest, _file_name(_LOCAL, rank)), beat)
    with _fitting(directory):
        return State(replicated, unflatten(tensors, structure))


def _read_replicated(directory: Path, manifest: Manifest, beat: _Beat, wanted: Wanted) -> Tree:
    texts = [
        shard.read(*_listed(directory, manifest, file.path), beat)[1]
        for file in manifest.files
        if file.path.startswith(_PART)
    ]
    with _fitting(directory):
        structure, wholes = join([Part.model_validate_json(text) for text in texts], manifest.mesh.size)
    assemblies = {path: Assembly(path, whole, wanted(path)) for path, whole in wholes.items()}
    needed: dict[int, dict[str, Chunk]] = {}
    for path, assembly in assemblies.items():
        for chunk in assembly.needed:
            needed.setdefault(chunk.rank, {})[path] = chunk
    for rank, chunks in sorted(needed.items()):
        file = _listed(directory, manifest, _file_name(_REPLICATED, rank))
        for path, tensor in shard.each(*file, chunks, beat):
            assemblies[path].fill(chunks[path], tensor)
    with _fitting(directory):
        return unflatten({path: assembly.result() for path, assembly in assemblies.items()}, structure)


def _listed(directory: Path, manifest: Manifest, name: str) -> tuple[Path, int, str]:
    """(path, size, SHA-256) of a file."""
    for file in manifest.files:
        if file.path == name:
            return directory / name, file.size, file.sha256
    raise shard.DamagedFile(f"the manifest of {directory.name} names no file {name}")


@contextmanager
def _fitting(directory: Path) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise shard.DamagedFile(f"the files of {directory.name} do not fit together: none holds {error}") from error
    except ValueError as error:
        raise shard.DamagedFile(f"the files of {directory.name} do not fit together: {error}") from error


def _file_name(kind: str, rank: int) -> str:
    return f"{kind}{rank:05d}.safetensors"
