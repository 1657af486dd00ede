"""A checkpoint that lies in the memory of the generation's ranks."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Memory, name_of
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.source import listed
from ringtrain.comm.group import Group

_CHUNK = 16 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint in memory, the same as all ranks see it."""

    manifest: Manifest
    """All files of all ranks that wrote it."""
    holders: Mapping[str, int]
    """By file: the first rank that holds it now."""


def find(held: Sequence[Sequence[Manifest]]) -> dict[CheckpointName, Found]:
    """The checkpoints of which nothing is missing, from the manifests of what each rank holds, by rank."""
    found: dict[CheckpointName, tuple[Manifest, dict[str, tuple[int, ManifestFile]]]] = {}
    for holder, manifests in enumerate(held):
        for manifest in manifests:
            _, files = found.setdefault(name_of(manifest), (manifest, {}))
            for file in manifest.files:
                files.setdefault(file.path, (holder, file))
    return {
        name: Found(
            manifest.model_copy(update={"files": tuple(file for _, file in files.values())}),
            {path: holder for path, (holder, _) in files.items()},
        )
        for name, (manifest, files) in found.items()
        if {file.rank for _, file in files.values()} == set(range(manifest.mesh.size))
    }


class MemorySource:
    """What is not here comes from the rank that holds it. All ranks read together, each what it wants: three times
    `files`, or twice when the checkpoint is of another mesh, whose ranks' local state nobody wants."""

    def __init__(self, found: Found, group: Group, memory: Memory) -> None:
        self.name = f"{name_of(found.manifest)} in memory"
        self.manifest = found.manifest
        self._holders = found.holders
        self._group = group
        self._scratch = memory.scratch
        self._here = _paths(memory, name_of(found.manifest))
        self._left = 3 if found.manifest.mesh == group.mesh else 2
        self._due: deque[ManifestFile] = deque()

    def files(self, names: Collection[str]) -> Iterator[tuple[ManifestFile, Path]]:
        found = listed(self.manifest, self.name, names)
        self._ask({file.path for file in found} - self._here.keys())
        for file in found:
            yield file, self._here.get(file.path) or self._take(file)
        self._pass_on()

    def finish(self) -> None:
        """What others still want, after this rank has met a damaged file."""
        self._pass_on()
        while self._left:
            self._ask(set())
            self._pass_on()

    def _ask(self, missing: set[str]) -> None:
        self._left -= 1
        wanted = set().union(*self._group.all_gather_json(sorted(missing)))
        self._due.extend(file for file in self.manifest.files if file.path in wanted)

    def _take(self, file: ManifestFile) -> Path:
        while (due := self._due.popleft()) is not file:
            self._transfer(due, None)
        self._transfer(file, self._scratch.resize(file.size))
        return self._scratch.path

    def _pass_on(self) -> None:
        while self._due:
            self._transfer(self._due.popleft(), None)

    def _transfer(self, file: ManifestFile, target: torch.Tensor | None) -> None:
        """From its holder to all ranks; those without a target drop it."""
        holder = self._holders[file.path]
        source = self._here[file.path].open("rb") if holder == self._group.rank else None
        try:
            for start in range(0, file.size, _CHUNK):
                chunk = torch.empty(min(_CHUNK, file.size - start), dtype=torch.uint8)
                if source is not None:
                    source.readinto(chunk.numpy().data)
                self._group.broadcast(chunk, holder)
                if target is not None:
                    target[start : start + len(chunk)] = chunk
        finally:
            if source is not None:
                source.close()


def _paths(memory: Memory, name: CheckpointName) -> dict[str, Path]:
    """The files of that checkpoint that are here."""
    return {
        file.path: place.path
        for manifest, slot in memory.held()
        if name_of(manifest) == name
        for file, place in zip(manifest.files, slot.files, strict=False)
    }
