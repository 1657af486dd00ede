"""A rank's part in saving a checkpoint."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from ringtrain.checkpoint.manifest import FILE_NAME
from ringtrain.checkpoint.state import State, remove_files, write_files
from ringtrain.checkpoint.volume import staging, sync_directory
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.runtime.session import Session


class Writer:
    """Saves checkpoints of one generation. A volume that refuses costs the checkpoint, never the training."""

    def __init__(self, root: Path, session: Session, generation: Generation, holders: Sequence[int]) -> None:
        """`holders` are the ranks whose replicated state is the same as this one's, itself among them, in an order that
        is the same for all of them: all ranks of a data-parallel job, the twins of a pipeline's stage."""
        self._root = root
        self._session = session
        self._generation = generation
        self._holders = holders

    def save(self, round: int, state: State) -> str:
        """Writes this rank's part and waits for the commit: all ranks must save the same round.

        Returns "" once it is committed, else why it was given up. Raises Interrupted or Preempted.
        """
        directory = None
        try:
            directory = staging(self._root, self._generation, round)
            files = write_files(directory, state, self._session.rank, self._holders, self._beat)
            sync_directory(directory)
        except OSError as error:
            self._clean(directory)
            self._session.save_failed(round, f"{self._root}: {error.strerror or error}")
        else:
            self._session.shards_written(round, files)
        problem = self._session.wait_committed(round)
        if problem:
            self._clean(directory)
        return problem

    def _beat(self) -> None:
        self._session.beat(Phase.CHECKPOINTING)

    def _clean(self, directory: Path | None) -> None:
        # With a manifest in it the commit may still be under way. What stays here, a later commit's clean-up removes.
        if directory is not None and not (directory / FILE_NAME).exists():
            with contextlib.suppress(OSError):
                remove_files(directory, self._session.rank)
