"""Ringtrain's own saving, as its training loop drives it."""

import time
from pathlib import Path

from checkpoint_results import EVERY, RINGTRAIN, RINGTRAIN_MEMORY, RINGTRAIN_VOLUME
from checkpoint_way import KEEP, Way, wait
from ringtrain.checkpoint.checkpoints import Checkpoints
from ringtrain.checkpoint.tiers import Tiers
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.runtime.session import Session
from ringtrain.train.trainer import Trainer

_NEVER = 10**9


def settings_of(way: str, root: Path) -> CheckpointSettings:
    every, memory_every = {RINGTRAIN: (EVERY, 1), RINGTRAIN_VOLUME: (EVERY, 0), RINGTRAIN_MEMORY: (_NEVER, 1)}[way]
    return CheckpointSettings(directory=str(root), every=every, memory_every=memory_every, keep=KEEP)


class Ours(Way):
    """The benchmark's process plays agent and coordinator, so it knows when a checkpoint is on disk."""

    def __init__(
        self, trainer: Trainer, group: Group, settings: CheckpointSettings, session: Session, tiers: Tiers
    ) -> None:
        super().__init__(trainer, group, Path(settings.directory))
        assert session.generation is not None
        self._session = session
        self._checkpoints = Checkpoints(settings, tiers, session, Generation.parse(session.generation), group)
        self._saver = self._checkpoints.saver(None)

    def votes(self) -> Votes:
        return self._saver.votes()

    def before_step(self) -> None:
        self._session.beat(Phase.TRAINING)
        self._saver.before_step()

    def end_round(self, round: int, votes: Votes) -> None:
        began, before = time.monotonic(), self._saver.totals.snapshots
        self._saver.end_round(round, votes, self._trainer.state)
        if self._saver.totals.snapshots > before:
            self.started[round] = began

    def drain(self) -> None:
        def done() -> bool:
            self._session.poll()
            return not self._saver.votes().writing

        wait(done)

    def restore(self, round: int) -> None:
        restored = self._checkpoints.newest(self._trainer.needs)
        if restored is None or restored.round != round:
            raise RuntimeError(f"expected a checkpoint of round {round}, found {restored and restored.name}")
        self._trainer.load(restored.state)
