"""The state that a snapshot was taken of: while nothing has changed it, it stands in for the snapshots of all twins.

So what a lost machine held in its memory is there again, as long as one rank with the same parameters lives: as torchft
heals a replica from another, but by the files of a checkpoint, so that all that reads those reads this.
"""

from dataclasses import replace
from functools import cached_property
from typing import Self

from torch import Tensor

from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import MemoryFile, Slot, name_of
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.shard import Image
from ringtrain.checkpoint.state import Replicated
from ringtrain.checkpoint.tree import Piece, rows


class Living:
    """Of one rank. Its tensors are those of training itself."""

    def __init__(self, snapshot: Manifest, replicated: Replicated, lossless: bool = False) -> None:
        """Of the rank's snapshot and what it was taken of."""
        self.snapshot = snapshot
        """The rank's own files."""
        self.lossless = lossless
        """Whether ranks can go on from it with the same bits, although their local state is lost."""
        self._replicated = replicated
        self._versions = self._now()

    @cached_property
    def manifest(self) -> Manifest:
        """Of that checkpoint the files of all holders, but for their local state."""
        files = (
            ManifestFile(rank=rank, path=image.name, size=image.size, sha256="")
            for rank, image in self._images.values()
        )
        return self.snapshot.model_copy(update={"files": tuple(files)})

    @cached_property
    def _images(self) -> dict[str, tuple[int, Image]]:
        """By name, with the holder whose file it is. Only after a failure: there may be a thousand holders."""
        holders = self._replicated.part.holders
        return {image.name: (rank, image) for rank in holders for image in self._replicated.images(rank)}

    @property
    def name(self) -> CheckpointName:
        """Of the checkpoint."""
        return name_of(self.snapshot)

    @property
    def intact(self) -> bool:
        """Whether no tensor was changed since. What is changed behind autograd's back goes unnoticed: see `is_in`."""
        return None not in self._versions and self._versions == self._now()

    def is_in(self, slot: Slot) -> bool:
        """Whether the part of it that the rank's snapshot there holds is the same still, once all is on the host. It is
        not after a step of an optimizer whose changes nobody counts, by `.data` or by kernels of its own."""
        own = zip(self.snapshot.files, slot.files, strict=False)
        return all(self._images[file.path][1].is_in(place.content) for file, place in own if self.has(file.path))

    def has(self, path: str) -> bool:
        """Whether that file can be made here."""
        return path in self._images

    def on_host(self) -> Self:
        """The same in memory of the machine, so that a GPU has room for what is built next."""
        tensors = {path: _on_host(leaf) for path, leaf in self._replicated.tensors.items()}
        return type(self)(self.snapshot, replace(self._replicated, tensors=tensors), self.lossless)

    def write(self, path: str, file: MemoryFile) -> None:
        """Makes the file `path` of the checkpoint, once all is on the host. Raises MemoryError."""
        _, image = self._images[path]
        image.copy_to(file.resize(image.size))

    def _now(self) -> list[int | None]:
        tensors = (rows(leaf) for leaf in self._replicated.tensors.values())
        # Nobody counts the changes of tensors that were made in inference mode.
        return [None if tensor.is_inference() else tensor._version for tensor in tensors]


def _on_host(leaf: Tensor | Piece) -> Tensor | Piece:
    return replace(leaf, tensor=leaf.tensor.cpu()) if isinstance(leaf, Piece) else leaf.cpu()
