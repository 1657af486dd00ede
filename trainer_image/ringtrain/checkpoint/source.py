"""Where the files of a checkpoint are read from."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

from ringtrain.checkpoint.manifest import Manifest, ManifestFile
from ringtrain.checkpoint.shard import DamagedFile


class Source(Protocol):
    """One checkpoint, as one rank reads it."""

    @property
    def name(self) -> str:
        """The checkpoint's, for people."""
        ...

    @property
    def manifest(self) -> Manifest: ...

    @property
    def lost(self) -> Collection[int]:
        """The ranks whose local state is lost; they call `files` all the same, for nothing."""
        ...

    def files(self, names: Collection[str]) -> Iterator[tuple[ManifestFile, Path]]:
        """Those of the given names, in the manifest's order; a path is good until the next step.

        Raises DamagedFile when the manifest lacks one, and what collectives raise.
        """
        ...


def listed(manifest: Manifest, name: str, names: Collection[str]) -> list[ManifestFile]:
    """The entries of `names` in the manifest of the checkpoint `name`. Raises DamagedFile when there is none of one."""
    found = [file for file in manifest.files if file.path in names]
    missing = set(names) - {file.path for file in found}
    if missing:
        raise DamagedFile(f"the manifest of {name} names no file {min(missing)}")
    return found


class VolumeSource:
    """A directory of the checkpoint volume."""

    lost: Collection[int] = ()

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.name = directory.name
        self.manifest = manifest
        self._directory = directory

    def files(self, names: Collection[str]) -> Iterator[tuple[ManifestFile, Path]]:
        for file in listed(self.manifest, self.name, names):
            yield file, self._directory / file.path
