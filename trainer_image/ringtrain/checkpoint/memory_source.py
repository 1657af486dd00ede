"""A checkpoint that lies in the memory of the generation's ranks."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ringtrain.checkpoint.living import Living
from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.memory import Memory, name_of
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.source import listed
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.comm.group import Group
from ringtrain.contract.model import ContractModel

_CHUNK = 16 << 20


class Held(ContractModel):
    """Files of a checkpoint that a rank can give."""

    manifest: Manifest
    """Of these files alone."""
    living: bool = False
    """They can be made of its training's state. So all of the twins' are among them, but their local state."""
    lossless: bool = False
    """Which nobody needs for the same bits."""


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint in memory, the same as all ranks see it."""

    manifest: Manifest
    """All files of all ranks that wrote it."""
    holders: Mapping[str, int]
    """By file: the first rank that holds it now."""
    lost: frozenset[int] = frozenset()
    """The ranks that wrote it of whose local state no file is left."""
    lossless: bool = False
    """Their local state is not needed for the same bits."""

    @property
    def exact(self) -> bool:
        """Whether training goes on from it with the bits of a job that lost nothing."""
        return self.lossless or not self.lost


def held(tiers: Tiers) -> list[Held]:
    """What this rank has."""
    found = [Held(manifest=manifest) for manifest, _ in tiers.memory.held()]
    if tiers.living is not None and tiers.living.intact:
        found.append(Held(manifest=tiers.living.manifest, living=True, lossless=tiers.living.lossless))
    return found


def find(held: Sequence[Sequence[Held]]) -> dict[CheckpointName, Found]:
    """The checkpoints of which nothing is missing, but perhaps local state, from what each rank holds, by rank."""
    gathered: dict[CheckpointName, _Gathered] = {}
    # Snapshots first: a file that is there already is had for less than one that must be made.
    for living in (False, True):
        for holder, own in enumerate(held):
            for each in own:
                if each.living is living:
                    gathered.setdefault(name_of(each.manifest), _Gathered(each.manifest)).take(holder, each)
    return {name: one.found() for name, one in gathered.items() if one.whole}


class _Gathered:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._files: dict[str, tuple[int, ManifestFile]] = {}
        self._complete: set[int] = set()
        self._covered: set[int] = set()
        self._lossless = True

    def take(self, holder: int, held: Held) -> None:
        for file in held.manifest.files:
            self._files.setdefault(file.path, (holder, file))
        ranks = {file.rank for file in held.manifest.files}
        if held.living:
            self._covered.update(twin for rank in ranks for twin in held.manifest.mesh.twins(rank))
            self._lossless &= held.lossless
        else:
            self._complete |= ranks

    @property
    def whole(self) -> bool:
        return self._complete | self._covered == set(range(self._manifest.mesh.size))

    def found(self) -> Found:
        return Found(
            self._manifest.model_copy(update={"files": tuple(file for _, file in self._files.values())}),
            {path: holder for path, (holder, _) in self._files.items()},
            frozenset(self._covered - self._complete),
            self._lossless,
        )


class MemorySource:
    """What is not here comes from the rank that holds it. All ranks read together, each what it wants: three times
    `files`, or twice when the checkpoint is of another mesh, whose ranks' local state nobody wants."""

    def __init__(self, found: Found, group: Group, tiers: Tiers) -> None:
        self.name = f"{name_of(found.manifest)} in memory"
        self.manifest = found.manifest
        self.lost = found.lost
        self._holders = found.holders
        self._group = group
        self._scratch, self._made = tiers.memory.scratch, tiers.memory.made
        self._here = _paths(tiers.memory, name_of(found.manifest))
        self._living = _living(tiers, name_of(found.manifest))
        self._left = 3 if found.manifest.mesh == group.mesh else 2
        self._due: deque[ManifestFile] = deque()

    def files(self, names: Collection[str]) -> Iterator[tuple[ManifestFile, Path]]:
        found = listed(self.manifest, self.name, names)
        self._ask({file.path for file in found if not self._is_here(file)})
        for file in found:
            yield file, self._path(file) if self._is_here(file) else self._take(file)
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

    def _is_here(self, file: ManifestFile) -> bool:
        return file.path in self._here or (self._living is not None and self._living.has(file.path))

    def _path(self, file: ManifestFile) -> Path:
        """Of one that is here; good until the next step."""
        if file.path in self._here:
            return self._here[file.path]
        assert self._living is not None
        self._living.write(file.path, self._made)
        return self._made.path

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
        source = self._path(file).open("rb") if holder == self._group.rank else None
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


def _living(tiers: Tiers, name: CheckpointName) -> Living | None:
    living = tiers.living
    return living if living is not None and living.intact and living.name == name else None
