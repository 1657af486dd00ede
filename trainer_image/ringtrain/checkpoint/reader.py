"""Finding the newest checkpoint that every rank can read, in memory or on the volume."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ringtrain.checkpoint.assembly import Wanted, everything
from ringtrain.checkpoint.manifest import FILE_NAME, DamagedManifest, Manifest, unseal
from ringtrain.checkpoint.memory import Memory
from ringtrain.checkpoint.memory_source import Found, MemorySource, find
from ringtrain.checkpoint.names import CheckpointName
from ringtrain.checkpoint.shard import DamagedFile
from ringtrain.checkpoint.source import VolumeSource
from ringtrain.checkpoint.state import State, read_files
from ringtrain.checkpoint.volume import candidates
from ringtrain.comm.group import Group
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

    def __init__(self, root: Path, session: Session, group: Group) -> None:
        self._root = root
        self._session = session
        self._group = group

    def load(self, memory: Memory | None, wanted: Wanted = everything) -> Restored | None:
        """The newest checkpoint that is whole for every rank; None when there is none. Without `memory`, only those on
        the volume count.

        `wanted` says what this rank needs of the replicated state's tensor at a path, such as "model/head.weight". Some
        rows of it come as a Piece; a tensor that is not needed is not read, and comes as Unread.

        A damaged checkpoint is passed over, and reported. Raises BadConfiguration when all are damaged: starting anew
        would silently throw away what was trained. Raises OSError when rank 0 cannot list the volume for now.
        """
        damaged: list[_Candidate] = []
        for candidate in self._candidates(memory):
            state = None
            if not candidate.problem:
                own, state = self._read(candidate, memory, wanted)
                candidate = _judged(candidate, self._group.all_gather_json(own))
            if state is not None and not candidate.problem:
                if memory is not None:
                    memory.forget_newer(candidate.name)
                self._report(damaged, candidate.name.round)
                on_volume = candidate.found is None
                name = str(candidate.name) if on_volume else f"{candidate.name} in memory"
                return Restored(name, candidate.name.round, state, on_volume)
            damaged.append(candidate)
        if damaged:
            raise BadConfiguration(
                f"all {len(damaged)} checkpoints in {self._root} are damaged (the newest, {damaged[0].name}: "
                f"{damaged[0].problem}): restore one from a backup, or empty the directory to train from round 0. If "
                "files are missing, check that all replicas mount the same volume"
            )
        if memory is not None:
            memory.forget_newer(None)
        return None

    def _candidates(self, memory: Memory | None) -> Iterator[_Candidate]:
        """Newest first, the same on all ranks; of the same ones, that in memory first."""
        held = [manifest.to_json() for manifest, _ in memory.held()] if memory is not None else []
        everywhere = self._group.all_gather_json(held)
        in_memory = find([[Manifest.model_validate_json(text) for text in texts] for texts in everywhere])
        found = [_Candidate(name, checkpoint) for name, checkpoint in in_memory.items()]
        yield from sorted([*found, *self._on_volume()], key=lambda one: (one.name, one.found is not None), reverse=True)

    def _on_volume(self) -> list[_Candidate]:
        """As rank 0 sees them, so that all ranks try the same ones."""
        own = []
        if self._group.rank == 0:
            try:
                own = [(str(found.name), found.problem) for found in candidates(self._root)]
            except OSError as error:
                message = f"the checkpoint volume cannot be listed ({error.strerror})"
                raise OSError(error.errno, message, str(self._root)) from error
        names = [(CheckpointName.parse(name), problem) for name, problem in self._group.all_gather_json(own)[0]]
        return [_Candidate(name, problem=problem) for name, problem in names if name is not None]

    def _read(self, candidate: _Candidate, memory: Memory | None, wanted: Wanted) -> tuple[str, State | None]:
        """(why it cannot be read or "", the state)"""
        if candidate.found is not None and memory is not None:
            return self._read_memory(MemorySource(candidate.found, self._group, memory), wanted)
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

    def _report(self, damaged: list[_Candidate], used: int) -> None:
        for candidate in damaged:
            if candidate.seen_by == self._group.rank:
                message = f"round {candidate.name.round}: {candidate.problem}; using round {used}"
                self._session.report("CheckpointDamaged", message)

    def _beat(self) -> None:
        self._session.beat(Phase.RESTORING)


def _judged(candidate: _Candidate, problems: list[str]) -> _Candidate:
    """`candidate` with the first of what the ranks found wrong with it."""
    rank = next((rank for rank, problem in enumerate(problems) if problem), 0)
    return replace(candidate, problem=problems[rank], seen_by=rank)
