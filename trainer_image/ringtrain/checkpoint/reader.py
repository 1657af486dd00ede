"""Finding the newest checkpoint that every rank can read."""

from dataclasses import dataclass, replace
from pathlib import Path

from ringtrain.checkpoint.assembly import Wanted, everything
from ringtrain.checkpoint.directory import why_unusable
from ringtrain.checkpoint.manifest import FILE_NAME, DamagedManifest, unseal
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.state import State, read_files
from ringtrain.checkpoint.volume import candidates
from ringtrain.comm.group import Group
from ringtrain.contract.phases import Phase
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Restored:
    name: str
    """The checkpoint's directory."""
    round: int
    state: State


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    round: int
    problem: str
    seen_by: int = 0
    """The first rank that met the problem."""


class Reader:
    """Reads checkpoints together with all ranks of a generation."""

    def __init__(self, root: Path, session: Session, group: Group) -> None:
        self._root = root
        self._session = session
        self._group = group

    def load(self, wanted: Wanted = everything) -> Restored | None:
        """The newest checkpoint that is whole for every rank; None when the volume holds none.

        `wanted` says what this rank needs of the replicated state's tensor at a path, such as "model/head.weight". Some
        rows of it come as a Piece; a tensor that is not needed is not read, and comes as Unread.

        A damaged checkpoint is passed over, and reported. Raises BadConfiguration when all are damaged: starting anew
        would silently throw away what was trained; and when this rank could never save one. Raises OSError when rank 0
        cannot list the volume for now.
        """
        unusable = why_unusable(self._root)
        if unusable:
            raise BadConfiguration(unusable)
        damaged: list[_Candidate] = []
        for candidate in self._list():
            state = None
            if not candidate.problem:
                own, state = self._read(candidate.name, wanted)
                candidate = _judged(candidate, self._group.all_gather_json(own))
            if state is not None and not candidate.problem:
                self._report(damaged, candidate.round)
                return Restored(candidate.name, candidate.round, state)
            damaged.append(candidate)
        if damaged:
            raise BadConfiguration(
                f"all {len(damaged)} checkpoints in {self._root} are damaged (the newest, {damaged[0].name}: "
                f"{damaged[0].problem}): restore one from a backup, or empty the directory to train from round 0. If "
                "files are missing, check that all replicas mount the same volume"
            )
        return None

    def _list(self) -> list[_Candidate]:
        """As rank 0 sees them, so that all ranks try the same ones in the same order."""
        own = []
        if self._group.rank == 0:
            try:
                own = [(str(found.name), found.round, found.problem) for found in candidates(self._root)]
            except OSError as error:
                message = f"the checkpoint volume cannot be listed ({error.strerror})"
                raise OSError(error.errno, message, str(self._root)) from error
        return [_Candidate(*fields) for fields in self._group.all_gather_json(own)[0]]

    def _read(self, name: str, wanted: Wanted) -> tuple[str, State | None]:
        """(why it cannot be read or "", the state)"""
        directory = self._root / name
        try:
            manifest = unseal((directory / FILE_NAME).read_bytes())
            return "", read_files(directory, manifest, self._group.rank, self._group.mesh, self._beat, wanted)
        except OSError as error:
            return f"its manifest cannot be read: {error.strerror}", None
        except (DamagedManifest, DamagedFile) as error:
            return str(error), None

    def _report(self, damaged: list[_Candidate], used: int) -> None:
        for candidate in damaged:
            if candidate.seen_by == self._group.rank:
                message = f"round {candidate.round}: {candidate.problem}; using round {used}"
                self._session.report("CheckpointDamaged", message)

    def _beat(self) -> None:
        self._session.beat(Phase.RESTORING)


def _judged(candidate: _Candidate, problems: list[str]) -> _Candidate:
    """`candidate` with the first of what the ranks found wrong with it."""
    rank = next((rank for rank, problem in enumerate(problems) if problem), 0)
    return replace(candidate, problem=problems[rank], seen_by=rank)
