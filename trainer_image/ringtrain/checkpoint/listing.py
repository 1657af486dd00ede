"""What lies in a checkpoint directory, for people."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import computed_field

from ringtrain.checkpoint.integrity import why_damaged
from ringtrain.checkpoint.manifest import DamagedManifest
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.volume import Candidate, candidates, read_manifest
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.model import ContractModel

_NAMED = 5


class Unusable(Exception):
    """What was asked for is not there; the message says what is, or what to do."""


class Damaged(Exception):
    """A checkpoint is damaged; the message names it and what is wrong."""


class Entry(ContractModel):
    """A committed directory. `mesh` and `created` are None when it is damaged."""

    name: str
    round: int
    generation: str
    mesh: Mesh | None
    created: datetime | None
    size: int
    """Bytes on the volume."""
    problem: str
    """Why it is no checkpoint, as far as that can be told without reading its files."""

    @computed_field
    def valid(self) -> bool:
        return not self.problem


class Leftover(ContractModel):
    """A directory of a save that is under way or was given up, or of a deletion that did not end."""

    name: str
    size: int
    """Bytes on the volume."""


class Listing(ContractModel):
    checkpoints: tuple[Entry, ...]
    """Newest first."""
    leftovers: tuple[Leftover, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What reading all files of a checkpoint has shown."""

    name: str
    files: int
    size: int
    """Bytes of these files."""
    problems: tuple[str, ...]


def listed(root: Path) -> Listing:
    """Raises Unusable when `root` is no checkpoint directory."""
    return Listing(
        checkpoints=tuple(
            Entry(
                name=str(found.name),
                round=found.round,
                generation=str(found.generation),
                mesh=found.manifest.mesh if found.manifest is not None else None,
                created=found.manifest.created if found.manifest is not None else None,
                size=directory_size(found.path),
                problem=found.problem,
            )
            for found in committed(root)
        ),
        leftovers=tuple(
            Leftover(name=path.name, size=directory_size(path))
            for path in sorted(root.iterdir())
            if CheckpointName.parse_hidden(path.name) is not None
        ),
    )


def committed(root: Path) -> list[Candidate]:
    """Newest first. Raises Unusable when `root` is no checkpoint directory."""
    if not root.is_dir():
        raise Unusable(f"{root} is no directory" if root.exists() else f"there is no directory {root}")
    try:
        if not _holds_checkpoints(root):
            raise Unusable(f"{root} holds no checkpoints{_hint(root)}")
        # One that a job deleted while it was looked at is not damaged.
        return [found for found in candidates(root) if not found.problem or found.path.exists()]
    except OSError as error:
        raise Unusable(f"{root} cannot be read: {error.strerror}") from error


def named(root: Path, name: str) -> Candidate:
    """The checkpoint of that name, damaged or not. Raises Unusable."""
    found = {str(candidate.name): candidate for candidate in committed(root)}
    if name in found:
        return found[name]
    others = list(found)[:_NAMED] + ["..."] * (len(found) > _NAMED)
    raise Unusable(f"{root} holds no checkpoint {name}, but {', '.join(others) if others else 'none at all'}")


def readable(root: Path, name: str | None) -> Candidate:
    """The checkpoint of that name, by default the newest valid one. Raises Unusable, Damaged."""
    if name is not None:
        chosen = named(root, name)
        if chosen.problem:
            raise Damaged(f"{name}: {chosen.problem}")
        return chosen
    found = committed(root)
    for candidate in found:
        if not candidate.problem:
            return candidate
    if not found:
        raise Unusable(f"{root} holds no committed checkpoint")
    raise Damaged(f"no checkpoint in {root} is valid; the newest, {found[0].name}: {found[0].problem}")


def verify(root: Path, name: CheckpointName) -> Verdict:
    """Reads all files of a checkpoint."""
    try:
        manifest = read_manifest(root, name)
    except DamagedManifest as error:
        return Verdict(str(name), 0, 0, (str(error),))
    directory = root / str(name)
    problems = (why_damaged(directory / file.path, file, lambda: None) for file in manifest.files)
    return Verdict(
        str(name),
        len(manifest.files),
        sum(file.size for file in manifest.files),
        tuple(problem for problem in problems if problem),
    )


def directory_size(path: Path) -> int:
    """Bytes of all files below it; what is deleted meanwhile counts nothing."""
    return sum(_sizes(path))


def _sizes(path: Path) -> Iterator[int]:
    try:
        if path.is_dir():
            for inner in path.iterdir():
                yield from _sizes(inner)
        else:
            yield path.lstat().st_size
    except OSError:
        return


def _holds_checkpoints(directory: Path) -> bool:
    names = [path.name for path in directory.iterdir()]
    return any(CheckpointName.parse(name) or CheckpointName.parse_hidden(name) for name in names)


def _hint(directory: Path) -> str:
    own = directory.absolute()
    if CheckpointName.parse(own.name):
        return f", it is one: name {own.parent}, and perhaps {own.name} after it"
    # A job's folder, or a folder of such folders.
    inner = [path for pattern in ("*", "*/checkpoints") for path in sorted(directory.glob(pattern)) if path.is_dir()]
    found = []
    for path in inner:
        with contextlib.suppress(OSError):
            found += [str(path)] * _holds_checkpoints(path)
    return f"; these do: {', '.join(found[:_NAMED])}" if found else ""
