"""The checkpoint volume: staging, the one commit rule, listing and retention. Used by ranks and coordinator alike.

Ranks write files into a staging directory; the coordinator writes the manifest last and renames the directory. So a
crash at any point leaves either a whole checkpoint or none, and never touches an older one.
"""

import errno
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from ringtrain.checkpoint.manifest import FILE_NAME, DamagedManifest, Manifest, ManifestFile, seal, unseal
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.part import PREFIX, read_part
from ringtrain.checkpoint.retention import superfluous
from ringtrain.checkpoint.structure import merge
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile


class CommitRefused(Exception):
    """The shards make no checkpoint, or the generation is not the newest any more."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A committed directory. Its manifest is valid and its files have the right sizes, or `problem` says why not."""

    name: CheckpointName
    path: Path
    manifest: Manifest | None
    problem: str = ""

    @property
    def generation(self) -> Generation:
        return self.name.generation

    @property
    def round(self) -> int:
        return self.name.round


@dataclass(frozen=True, slots=True)
class Expendable:
    """What can be deleted."""

    checkpoints: tuple[CheckpointName, ...]
    """Committed ones, newest first."""
    leftovers: tuple[str, ...]
    """Directories of saves that were given up and of deletions that did not end."""


def staging(root: Path, generation: Generation, round: int) -> Path:
    """The directory, made if need be, into which ranks write their files of a checkpoint. Raises OSError."""
    path = root / CheckpointName(generation, round).staging
    path.mkdir(parents=True, exist_ok=True)
    return path


def commit(
    root: Path,
    generation: Generation,
    round: int,
    shards: Mapping[int, Sequence[ShardFile]],
    mesh: Mesh,
    *,
    job: str,
) -> Path:
    """Turns the staging directory into a checkpoint and returns its directory.

    `shards` holds the flushed files of every rank of `mesh` (a rank may have none). Raises CommitRefused when a
    higher generation has committed, when a rank's entry is missing, when a file is absent or has another size, or when
    parts of the state do not fit together; OSError when the volume refuses. The staging directory then stays without a
    manifest.
    """
    name = CheckpointName(generation, round)
    source, target = root / name.staging, root / str(name)
    _refuse_stale(root, name)
    files = _checked_files(source, shards, mesh.size)
    _refuse_unfit(source, files)
    manifest = Manifest(
        job=job,
        generation=str(generation),
        round=round,
        mesh=mesh,
        created=datetime.now(UTC),
        files=files,
    )
    try:
        with (source / FILE_NAME).open("xb") as file:
            file.write(seal(manifest))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(source)
        source.rename(target)
    except OSError:
        (source / FILE_NAME).unlink(missing_ok=True)
        raise
    sync_directory(root)
    return target


def candidates(root: Path) -> list[Candidate]:
    """All committed directories, newest first; none when `root` does not exist. Checksums of files are not read.

    Raises OSError.
    """
    return [_candidate(root, name) for name in _committed(root)]


def generations(root: Path) -> frozenset[Generation]:
    """Of which anything is left in `root`, committed or not; none when it does not exist. Raises OSError."""
    found = (CheckpointName.parse(name) or CheckpointName.parse_hidden(name) for name in _names(root))
    return frozenset(name.generation for name in found if name is not None)


def read_manifest(root: Path, name: CheckpointName) -> Manifest:
    """Of a committed checkpoint. Raises DamagedManifest."""
    try:
        manifest = unseal((root / str(name) / FILE_NAME).read_bytes())
    except FileNotFoundError as error:
        raise DamagedManifest("it has no manifest") from error
    except OSError as error:
        raise DamagedManifest(f"its manifest cannot be read: {error.strerror}") from error
    if (manifest.generation, manifest.round) != (str(name.generation), name.round):
        raise DamagedManifest("its manifest is of another checkpoint")
    return manifest


def expendable(
    root: Path, keep: int, keep_every: int | None = None, whole: Callable[[Candidate], bool] | None = None
) -> Expendable:
    """What retention lets go of: see `superfluous`. Nothing while no checkpoint is valid.

    `whole` may look closer at those without a problem, and is asked about no more of them, from the newest, than it
    takes to find `keep` valid ones. Raises OSError.
    """
    found = candidates(root)
    valid = (candidate.name for candidate in found if not candidate.problem and (whole is None or whole(candidate)))
    newest = list(islice(valid, max(keep, 0)))
    checkpoints = superfluous([candidate.name for candidate in found], newest, keep, keep_every)
    if not newest:
        return Expendable((), ())
    names = sorted(path.name for path in root.iterdir())
    hidden = [(name, CheckpointName.parse_hidden(name)) for name in names]
    leftovers = (name for name, checkpoint in hidden if checkpoint is not None and checkpoint < newest[0])
    return Expendable(tuple(checkpoints), tuple(leftovers))


def delete(root: Path, what: Expendable) -> list[str]:
    """Returns what could not be deleted, one message each. What somebody else deletes meanwhile is no problem."""
    problems = []
    doomed = list(what.leftovers)
    for name in what.checkpoints:
        try:
            (root / str(name)).rename(root / name.removed)
            doomed.append(name.removed)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"could not delete checkpoint {name}: {error}")
    for hidden in doomed:
        try:
            shutil.rmtree(root / hidden)
        except FileNotFoundError:
            pass
        except OSError as error:
            problems.append(f"could not delete {hidden}: {error}")
    return problems


def prune(root: Path, keep: int, keep_every: int | None = None) -> list[str]:
    """Deletes all but the `keep` newest valid checkpoints and those whose round is a multiple of `keep_every`, and
    staging directories older than the newest.

    To be called after a commit only. Returns what could not be deleted, one message each. Raises OSError when `root`
    cannot be listed.
    """
    return delete(root, expendable(root, keep, keep_every))


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and user-space file systems keep names durable by themselves and refuse this.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _committed(root: Path) -> list[CheckpointName]:
    """Newest first."""
    names = map(CheckpointName.parse, _names(root))
    return sorted((name for name in names if name is not None), reverse=True)


def _names(root: Path) -> list[str]:
    try:
        return [path.name for path in root.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        # Neither is there a directory below a file.
        return []


def _candidate(root: Path, name: CheckpointName) -> Candidate:
    path = root / str(name)
    try:
        manifest = read_manifest(root, name)
    except DamagedManifest as error:
        return Candidate(name, path, None, str(error))
    for file in manifest.files:
        problem = _size_problem(path / file.path, file.size)
        if problem:
            return Candidate(name, path, None, problem)
    return Candidate(name, path, manifest)


def _refuse_stale(root: Path, name: CheckpointName) -> None:
    committed = _committed(root)
    if not committed:
        return
    if name.generation < committed[0].generation:
        raise CommitRefused(
            f"generation {name.generation} is older than {committed[0].generation}, which has committed"
        )
    if name in committed:
        raise CommitRefused(f"checkpoint {name} is already committed")


def _checked_files(
    source: Path, shards: Mapping[int, Sequence[ShardFile]], world_size: int
) -> tuple[ManifestFile, ...]:
    if sorted(shards) != list(range(world_size)):
        raise CommitRefused(f"expected the files of ranks 0..{world_size - 1}, got those of {sorted(shards)}")
    files = []
    for rank, own in sorted(shards.items()):
        for shard in own:
            if Path(shard.path).name != shard.path or shard.path in ("", "..", FILE_NAME):
                raise CommitRefused(f"rank {rank}'s file {shard.path!r} is not a plain file name")
            problem = _size_problem(source / shard.path, shard.size)
            if problem:
                raise CommitRefused(f"rank {rank}: {problem}")
            files.append(ManifestFile(rank=rank, path=shard.path, size=shard.size, sha256=shard.sha256))
    if len({file.path for file in files}) != len(files):
        raise CommitRefused("two ranks wrote the same file")
    return tuple(files)


def _refuse_unfit(source: Path, files: Sequence[ManifestFile]) -> None:
    """Nobody could read what was committed so, and older ones would be deleted for it."""
    parts = [source / file.path for file in files if file.path.startswith(PREFIX)]
    if len(parts) < 2:
        return
    try:
        merge(read_part(path).structure for path in parts)
    except ValueError as error:
        raise CommitRefused(f"{error}: what is saved must be the same on all ranks, or of one of them alone") from error


def _size_problem(path: Path, size: int) -> str:
    try:
        actual = path.stat().st_size
    except OSError as error:
        return f"file {path.name} is missing ({error.strerror})"
    return "" if actual == size else f"file {path.name} has {actual} bytes, expected {size}"
