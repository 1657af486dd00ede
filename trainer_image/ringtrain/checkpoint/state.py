"""What a checkpoint holds, and how it is laid out in files.

Replicated state is written once: those that hold the same part of it divide its tensors among them, and the first of
them tells in a file of its own of all that is no tensor, and where the tensors lie. Local state is written whole by the
rank it belongs to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeAlias

from torch import Tensor

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.assembly import Assembly, Wanted, everything
from ringtrain.checkpoint.layout import divide, join
from ringtrain.checkpoint.part import PREFIX, Chunk, Part
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.source import Source
from ringtrain.checkpoint.tree import Piece, Tree, flatten, rows, unflatten
from ringtrain.contract.mesh import Mesh

_REPLICATED, _LOCAL = "replicated-", "local-"
IMAGES = 3
"""A rank has at most so many files of a checkpoint."""

_Beat: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class State:
    """A rank's state between two micro-batches."""

    replicated: Tree
    """The same on every rank that holds it: model, optimizer, round, data position. Where ranks hold parts of a model,
    their trees are parts of one tree, that of the whole model: what is read is that whole tree, on every rank."""
    local: Tree | None
    """This rank's own: random generators, residuals, gradients in mid-accumulation. A Piece comes back as its rows.
    None when it was read on another mesh, where these have no owner, or when it is lost."""
    settled: bool = False
    """The replicated tensors stay as they are until the next optimizer step."""
    dispensable: bool = False
    """Training can go on without a rank's local state: what is lost of it begins anew."""
    lossless: bool = False
    """And then with the same bits: nothing is drawn, fed back or accumulated."""


@dataclass(frozen=True, slots=True)
class Replicated:
    """The replicated state as files: those of all who hold the same part of it."""

    tensors: Mapping[str, Tensor | Piece]
    """The living ones, by path."""
    part: Part
    settled: bool
    """They stay as they are until the next optimizer step."""

    @classmethod
    def of(cls, state: State, holders: Sequence[int]) -> Self:
        """`holders` are the ranks whose replicated state is the same, in an order that is the same for all of them: all
        ranks of a data-parallel job, the twins of a pipeline's stage."""
        tensors, structure = flatten(state.replicated)
        return cls(tensors, divide(tensors, structure, holders), state.settled)

    def images(self, rank: int) -> list[Image]:
        """The files of that one of the holders, the same whichever of them makes them.

        Raises ValueError when it is none.
        """
        holders = self.part.holders
        if rank not in holders:
            raise ValueError(
                f"rank {rank} is none of the holders of its own state, {list(holders)}: name all that hold it"
            )
        found = []
        if rank == holders[0]:
            found.append(Image(_file_name(PREFIX, rank), {}, self.part.to_json()))
        own = {path: rows(self.tensors[path]) for path in self.part.of_rank(rank)}
        if own:
            found.append(Image(_file_name(_REPLICATED, rank), own, "", settled=self.settled))
        return found


def local_image(state: State, rank: int) -> Image:
    """The file of this rank's own state. With those of `Replicated` a rank has at most IMAGES files."""
    tensors, structure = flatten(state.local)
    return Image(_file_name(_LOCAL, rank), {path: rows(leaf) for path, leaf in tensors.items()}, structure)


def read_files(source: Source, rank: int, mesh: Mesh, beat: _Beat, wanted: Wanted = everything) -> State:
    """Reads and verifies what this rank of `mesh` needs; files without a wanted row are not opened.

    Raises shard.DamagedFile; `source.finish` must then be called.
    """
    replicated = read_replicated(source, beat, wanted)
    if source.manifest.mesh != mesh:
        return State(replicated, None)
    if rank in source.lost:
        list(source.files([]))
        return State(replicated, None)
    name = _file_name(_LOCAL, rank)
    found = list(_read(source, [name], beat))
    with _fitting(source):
        [(tensors, structure)] = found
        return State(replicated, unflatten(tensors, structure))


def read_replicated(source: Source, beat: _Beat, wanted: Wanted = everything) -> Tree:
    """The part of `read_files` that is about the replicated state."""
    parts = [file.path for file in source.manifest.files if file.path.startswith(PREFIX)]
    texts = [text for _, text in _read(source, parts, beat)]
    with _fitting(source):
        structure, wholes = join([Part.model_validate_json(text) for text in texts], source.manifest.mesh.size)
    assemblies = {path: Assembly(path, whole, wanted(path)) for path, whole in wholes.items()}
    needed: dict[str, dict[str, Chunk]] = {}
    for path, assembly in assemblies.items():
        for chunk in assembly.needed:
            needed.setdefault(_file_name(_REPLICATED, chunk.rank), {})[path] = chunk
    for file, location in source.files(sorted(needed)):
        chunks = needed[file.path]
        for path, tensor in shard.each(location, file, chunks, beat):
            assemblies[path].fill(chunks[path], tensor)
    with _fitting(source):
        return unflatten({path: assembly.result() for path, assembly in assemblies.items()}, structure)


def _read(source: Source, names: Sequence[str], beat: _Beat) -> Iterator[tuple[dict[str, Tensor], str]]:
    for file, path in source.files(names):
        yield shard.read(path, file, beat)


@contextmanager
def _fitting(source: Source) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise shard.DamagedFile(f"the files of {source.name} do not fit together: none holds {error}") from error
    except ValueError as error:
        raise shard.DamagedFile(f"the files of {source.name} do not fit together: {error}") from error


def _file_name(kind: str, rank: int) -> str:
    return f"{kind}{rank:05d}.safetensors"
