"""What a rank of the checkpoint benchmark saves with: nothing, or plain torch.save."""

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from checkpoint_results import EVERY
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.votes import Votes
from ringtrain.checkpoint.worker import Worker
from ringtrain.comm.group import Group
from ringtrain.train.trainer import Trainer

KEEP = 2
"""Saves that stay on disk."""
_SECONDS = 300.0


class Way:
    """Saves nothing, and is what all other ways are measured against."""

    def __init__(self, trainer: Trainer, group: Group, root: Path) -> None:
        self._trainer = trainer
        self._group = group
        self._root = root
        self._worker = Worker("bench-checkpoints")
        self.started: dict[int, float] = {}
        """When the save of a round was begun, by time.monotonic."""
        self.flushed: dict[int, float] = {}
        """When all of it was on disk, where the rank knows."""

    def votes(self) -> Votes:
        """Before the round's step, as the others until `drain`: what they take is stall."""
        return Votes()

    def before_step(self) -> None:
        """Parameters and moments are about to change."""

    def end_round(self, round: int, votes: Votes) -> None:
        """Saves what is due."""

    def drain(self) -> None:
        """Waits until all that was saved is on disk, and what is too old is not."""
        wait(lambda: not self._worker.busy)

    def restore(self, round: int) -> None:
        """Fills model and optimizer from what was saved after `round`."""

    def close(self) -> None:
        """Ends processes that it started."""

    def _flushed(self, round: int) -> None:
        """Notes that, and deletes what is too old: beside the training."""
        self.flushed[round] = time.monotonic()
        if self._group.rank == 0:
            self._worker.submit(partial(self._delete, round - KEEP * EVERY))

    def _delete(self, newest: int) -> None:
        for path in self._root.iterdir():
            if int(path.name) <= newest:
                shutil.rmtree(path)

    def _directory(self, round: int) -> Path:
        return self._root / str(round)


class TorchSave(Way):
    """Rank 0 alone saves. Nobody waits for the disk: torch.save flushes nothing, a thread does afterwards."""

    def end_round(self, round: int, votes: Votes) -> None:  # noqa: ARG002
        if round % EVERY or self._group.rank:
            return
        self.started[round] = time.monotonic()
        self._directory(round).mkdir()
        torch.save(self._trainer.state().replicated, self._file(round))
        self._worker.submit(partial(self._flush, round))

    def restore(self, round: int) -> None:
        # As its documentation advises: mapped, so that tensors are copied once.
        saved = torch.load(self._file(round), mmap=True, weights_only=True)
        self._trainer.load(State(saved, None))

    def _file(self, round: int) -> Path:
        return self._directory(round) / "state.pt"

    def _flush(self, round: int) -> None:
        descriptor = os.open(self._file(round), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._flushed(round)


def wait(done: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + _SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a save has not ended after {_SECONDS:.0f} s")
        time.sleep(0.005)
