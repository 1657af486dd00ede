"""Going back to the newest checkpoint of training code of your own, and saving others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ringtrain.api.saved import Misfit, Saved
from ringtrain.checkpoint import randomness
from ringtrain.checkpoint.checkpoints import Checkpoints
from ringtrain.checkpoint.digest import model_digest, tree_digest
from ringtrain.checkpoint.reader import Restored
from ringtrain.checkpoint.saver import Saver
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tree import Tree
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm.group import Group
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import agree, state_digest
from ringtrain.contract.environment import WarmStart
from ringtrain.contract.generation import Generation
from ringtrain.contract.report import CheckpointTotals
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.output import say

_OBJECTS = "objects/"


class ObjectCheckpoints:
    """Of one generation. Without `checkpoints` nothing is read or saved, and every generation starts anew."""

    def __init__(
        self,
        saved: Saved,
        reducer: Reducer | None,
        checkpoints: Checkpoints | None,
        generation: Generation,
        group: Group,
    ) -> None:
        self.round = 0
        """The newest that is saved, or was gone back to."""
        self.loss: float | None = None
        """Of that round."""
        self._saved = saved
        self._reducer = reducer
        self._checkpoints = checkpoints
        self._generation = generation
        self._group = group
        self._saver: Saver | None = None

    @property
    def totals(self) -> CheckpointTotals | None:
        return self._saver.totals if self._saver is not None else None

    def restore(self) -> None:
        """Goes back to the newest checkpoint that all ranks can read, if there is one.

        Raises BadConfiguration when it is of other objects, Disagreement when ranks do not start with the same state,
        and what heartbeats and collectives raise.
        """
        restored, source = None, "its beginning"
        if self._checkpoints is not None:
            restored = self._checkpoints.newest(self._wanted)
            if restored is None and self._checkpoints.warm_start is not None:
                settings = self._checkpoints.warm_start
                source = self._begin_with(self._checkpoints.load_warm_start(self._wanted), settings)
        if restored is not None:
            source = f"checkpoint {restored.name}"
            self._load(restored.name, restored.state.replicated)
        say(self._group.rank, f"generation {self._generation}: {self._group.size} ranks start from {source}")
        agree(self._group, self.round, tree_digest(self._replicated()))
        local = restored.state.local if restored is not None else None
        if restored is not None and self._all_fit(local) and local is not None:
            self._load_local(local)
        elif restored is not None:
            say(self._group.rank, "random generators and error feedback start anew: of other ranks, or lost")
        if self._checkpoints is not None:
            self._saver = self._checkpoints.saver(restored)

    def votes(self) -> Votes:
        """This rank's, to be joined with those of all others before `end_round`."""
        return self._saver.votes() if self._saver is not None else Votes()

    @contextmanager
    def ending(self, round: int, loss: float | None, votes: Votes) -> Iterator[None]:
        """For the end of a round, with the votes of all ranks: then it is saved. What breaks it off before does not
        cost the round. What cannot be saved is said, and costs only that checkpoint. Raises Interrupted, or Preempted
        once all is saved."""
        if self._saver is None:
            yield
            return
        self.round, self.loss = round, loss
        with self._saver.keeping(round, votes, self._state):
            yield
            self._saver.end_round(round, votes, self._state)

    def finish(self, round: int, loss: float | None) -> None:
        """All ranks call it after the last round, and then all is saved."""
        if self._saver is not None:
            self.round, self.loss = round, loss
            self._saver.finish(round, self._state)

    def close(self) -> None:
        """Never waits."""
        if self._saver is not None:
            self._saver.close()

    def model_digest(self) -> str:
        """Of the whole model, however it is cut: all ranks must ask for it. Raises PeerLost, or what polling raises."""
        own = {name: state_digest({name: tensor}) for name, tensor in self._saved.model().items()}
        return model_digest(self._group, own)

    def _wanted(self, path: str) -> bool:
        return self._saved.wanted(path.removeprefix(_OBJECTS))

    def _state(self) -> State:
        local = self._local()
        # Buffers of a rank's own cannot begin anew.
        return State(replicated=self._replicated(), local=local, dispensable=not local["buffers"])

    def _replicated(self) -> Tree:
        try:
            objects = self._saved.tree()
        except Misfit as error:
            raise BadConfiguration(f"context.checkpoint(): {error}") from error
        return {"round": self.round, "loss": self.loss, "objects": objects}

    def _local(self) -> dict[str, Any]:
        return {
            "random": randomness.capture(),
            "residuals": self._reducer.residuals() if self._reducer is not None else {},
            "buffers": self._saved.buffers(),
        }

    def _begin_with(self, other: Restored, settings: WarmStart) -> str:
        """Takes the parameters alone, or the optimizer's state too, and starts at round 0."""
        try:
            self._saved.begin_with(_objects(other.state.replicated), optimizer=settings.optimizer)
        except Misfit as error:
            raise BadConfiguration(
                f"checkpoint {other.name} in {settings.directory} is of other training code: {error}. Correct "
                "spec.checkpoint.restoreFrom, or remove it"
            ) from error
        return f"the parameters of checkpoint {other.name} in {settings.directory}"

    def _load(self, name: str, replicated: Tree) -> None:
        try:
            self._saved.load(_objects(replicated))
        except Misfit as error:
            raise BadConfiguration(
                f"checkpoint {name} is of other training code: {error}. Give context.checkpoint() what it was given "
                "then, or give the job an empty checkpoint directory"
            ) from error
        self.round, self.loss = replicated["round"], replicated["loss"]

    def _all_fit(self, local: Tree | None) -> bool:
        """Whether every rank can take its own state back, if it has any; not when the model was cut elsewhere."""
        return self._group.every(local is None or _shapes(local["buffers"]) == _shapes(self._saved.buffers()))

    @torch.no_grad()
    def _load_local(self, local: Tree) -> None:
        for name, buffer in self._saved.buffers().items():
            buffer.copy_(local["buffers"][name])
        if self._reducer is not None and not self._reducer.load_residuals(local["residuals"]):
            say(self._group.rank, "error feedback starts at zero: its state in the checkpoint is of other settings")
        randomness.restore(local["random"])


def _objects(replicated: Tree) -> Tree:
    if "objects" not in replicated:
        raise Misfit(f"it has no objects, but {', '.join(replicated)}")
    return replicated["objects"]


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
