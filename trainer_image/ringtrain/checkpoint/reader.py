"""Finding the newest checkpoint that every rank can read, in memory or on the volume."""

from dataclasses import dataclass, replace
from pathlib import Path

from ringtrain.checkpoint.assembly import Wanted, everything
from ringtrain.checkpoint.manifest import FILE_NAME, DamagedManifest, unseal
from ringtrain.checkpoint.memory_source import Found, Held, MemorySource, find, held
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import State, read_files
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.checkpoint.volume import candidates
from ringtrain.comm.group import Group
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.session import Session


@dataclass(frozen=True, slots=True)
class Restored:
    name: str
    """Which checkpoint, for people."""
    round: int
    state: State
    on_volume: bool
    """Else it is in memory only."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: CheckpointName
    found: Found | None = None
    """In memory; None: on the volume."""
    problem: str = ""
    seen_by: int = 0
    """The first rank that met the problem."""


class Reader:
    """Reads checkpoints together with all ranks of a generation."""

    def __init__(self, root: Path, session: Session, group: Group, *, exact: bool = False) -> None:
        """`exact`: a checkpoint of which a rank's local state is lost does not count, if it is needed."""
        self._exact = exact
        self._root = root
        self._session = session
        self._group = group

    def load(self, tiers: Tiers | None, wanted: Wanted = everything) -> Restored | None:
        """The newest checkpoint that is whole for every rank; None when there is none. Without `tiers`, only those on
        the volume count.

        `wanted` says what this rank needs of the replicated state's tensor at a path, such as "model/head.weight". Some
        rows of it come as a Piece; a tensor that is not needed is not read, and comes as Unread.

        A damaged checkpoint is passed over, and reported, and so is a volume that cannot be listed. Raises
        BadConfiguration when all are damaged: starting anew would silently throw away what was trained. Raises OSError
        when rank 0 cannot list the volume for now, and nothing in memory can be gone back to.
        """
        in_memory = self._in_memory(tiers)
        listed, unlisted = self._on_volume(needed=not in_memory)
        damaged: list[_Candidate] = []
        for candidate in sorted([*in_memory, *listed], key=_worth, reverse=True):
            state = None
            if not candidate.problem:
                own, state = self._read(candidate, tiers, wanted)
                candidate = _judged(candidate, self._group.all_gather_json(own))
            if state is not None and not candidate.problem:
                if tiers is not None:
                    tiers.forget_newer(candidate.name)
                self._report(damaged, unlisted, candidate)
                on_volume = candidate.found is None
                name = str(candidate.name) if on_volume else f"{candidate.name} in memory"
                return Restored(name, candidate.name.round, state, on_volume)
            damaged.append(candidate)
        if unlisted:
            raise OSError(unlisted)
        if damaged:
            raise BadConfiguration(
                f"all {len(damaged)} checkpoints in {self._root} are damaged (the newest, {damaged[0].name}: "
                f"{damaged[0].problem}): restore one from a backup, or empty the directory to train from round 0. If "
                "files are missing, check that all replicas mount the same volume"
            )
        if tiers is not None:
            tiers.forget_newer(None)
        return None

    def _in_memory(self, tiers: Tiers | None) -> list[_Candidate]:
        """The same on all ranks."""
        own = [each.to_json() for each in held(tiers)] if tiers is not None else []
        everywhere = self._group.all_gather_json(own)
        found = find([[Held.model_validate_json(text) for text in texts] for texts in everywhere])
        return [_Candidate(name, one) for name, one in found.items() if one.exact or not self._exact]

    def _on_volume(self, *, needed: bool) -> tuple[list[_Candidate], str]:
        """As rank 0 sees them, so that all ranks try the same ones; and why they cannot be listed, if they need not."""
        own: tuple[list[tuple[str, str]], str] = [], ""
        if self._group.rank == 0:
            try:
                own = [(str(found.name), found.problem) for found in candidates(self._root)], ""
            except OSError as error:
                message = f"the checkpoint volume cannot be listed ({error.strerror})"
                if needed:
                    raise OSError(error.errno, message, str(self._root)) from error
                own = [], message
        listed, unlisted = self._group.all_gather_json(own)[0]
        names = [(CheckpointName.parse(name), problem) for name, problem in listed]
        return [_Candidate(name, problem=problem) for name, problem in names if name is not None], unlisted

    def _read(self, candidate: _Candidate, tiers: Tiers | None, wanted: Wanted) -> tuple[str, State | None]:
        """(why it cannot be read or "", the state)"""
        if candidate.found is not None and tiers is not None:
            return self._read_memory(MemorySource(candidate.found, self._group, tiers), wanted)
        directory = self._root / str(candidate.name)
        try:
            source = VolumeSource(directory, unseal((directory / FILE_NAME).read_bytes()))
            return "", read_files(source, self._group.rank, self._group.mesh, self._beat, wanted)
        except OSError as error:
            return f"its manifest cannot be read: {error.strerror}", None
        except (DamagedManifest, DamagedFile) as error:
            return str(error), None

    def _read_memory(self, source: MemorySource, wanted: Wanted) -> tuple[str, State | None]:
        try:
            return "", read_files(source, self._group.rank, self._group.mesh, self._beat, wanted)
        except DamagedFile as error:
            problem = str(error)
        source.finish()
        return problem, None

    def _report(self, damaged: list[_Candidate], unlisted: str, used: _Candidate) -> None:
        if unlisted and self._group.rank == 0:
            self._session.report("CheckpointDamaged", f"{unlisted}; using round {used.name.round} in memory")
        for candidate in damaged:
            if candidate.seen_by == self._group.rank:
                message = f"round {candidate.name.round}: {candidate.problem}; using round {used.name.round}"
                self._session.report("CheckpointDamaged", message)
        if used.found is not None and used.found.lost and self._group.rank == 0:
            message = (
                f"the state of lost ranks ({', '.join(map(str, sorted(used.found.lost)))}) after round "
                f"{used.name.round} is that of their twins"
                + ("" if used.found.exact else "; random generators and error feedback begin anew")
            )
            self._session.report("StateFromTwins", message, warning=False)

    def _beat(self) -> None:
        self._session.beat(Phase.RESTORING)


def _worth(candidate: _Candidate) -> tuple[Generation, int, bool, bool, bool]:
    """Newer ones are worth more. To go on with the same bits is worth one round: the one whose snapshot a rank that is
    lost had not finished."""
    found, name = candidate.found, candidate.name
    exact = found is None or found.exact
    complete = found is None or not found.lost
    return name.generation, name.round + exact, exact, complete, found is not None


def _judged(candidate: _Candidate, problems: list[str]) -> _Candidate:
    """`candidate` with the first of what the ranks found wrong with it."""
    rank = next((rank for rank, problem in enumerate(problems) if problem), 0)
    return replace(candidate, problem=problems[rank], seen_by=rank)
