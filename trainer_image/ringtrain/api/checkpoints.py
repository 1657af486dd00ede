"""Going back to the newest checkpoint of training code of your own, and saving others."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ringtrain.api.saved import Misfit, Saved
from ringtrain.checkpoint import randomness
from ringtrain.checkpoint.digest import model_digest, tree_digest
from ringtrain.checkpoint.reader import Reader
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tree import Tree
from ringtrain.checkpoint.writer import Writer
from ringtrain.comm.group import Group
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import agree, state_digest
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.runtime.errors import BadConfiguration
from ringtrain.runtime.output import say
from ringtrain.runtime.session import Session

_OBJECTS = "objects/"


class Checkpoints:
    """Of one generation. Without `settings` nothing is read or saved, and every generation starts anew."""

    def __init__(
        self,
        saved: Saved,
        reducer: Reducer | None,
        settings: CheckpointSettings | None,
        session: Session,
        generation: Generation,
        group: Group,
    ) -> None:
        self.round = 0
        """The newest that is saved, or was gone back to."""
        self.loss: float | None = None
        """Of that round."""
        self._saved = saved
        self._reducer = reducer
        self._settings = settings
        self._session = session
        self._generation = generation
        self._group = group

    def restore(self) -> None:
        """Goes back to the newest checkpoint that all ranks can read, if there is one.

        Raises BadConfiguration when it is of other objects, Disagreement when ranks do not start with the same state,
        and what heartbeats and collectives raise.
        """
        restored = None
        if self._settings is not None:
            self._session.beat(Phase.RESTORING)
            root = Path(self._settings.directory)
            restored = Reader(root, self._session, self._group).load(self._wanted)
        if restored is not None:
            self._load(restored.name, restored.state.replicated)
        source = f"checkpoint {restored.name}" if restored is not None else "its beginning"
        say(self._group.rank, f"generation {self._generation}: {self._group.size} ranks start from {source}")
        agree(self._group, self.round, tree_digest(self._replicated()))
        local = restored.state.local if restored is not None else None
        if restored is not None and self._all_have(local):
            self._load_local(local)
        elif restored is not None:
            say(self._group.rank, "other ranks than before: random generators and error feedback start anew")

    def save_if_due(self, round: int, loss: float | None, last: bool) -> None:
        """All ranks call it at the end of a round. What cannot be saved is said, and costs only that checkpoint."""
        if self._settings is None or self.round == round or not (last or round % self._settings.every == 0):
            return
        self._session.beat(Phase.CHECKPOINTING)
        twins = self._group.mesh.twins(self._group.rank)
        writer = Writer(Path(self._settings.directory), self._session, self._generation, twins)
        self.round, self.loss = round, loss
        problem = writer.save(round, State(replicated=self._replicated(), local=self._local()))
        if problem:
            say(self._group.rank, f"no checkpoint of round {round}: {problem}")

    def model_digest(self) -> str:
        """Of the whole model, however it is cut: all ranks must ask for it. Raises PeerLost, or what polling raises."""
        own = {name: state_digest({name: tensor}) for name, tensor in self._saved.model().items()}
        return model_digest(self._group, own)

    def _wanted(self, path: str) -> bool:
        return self._saved.wanted(path.removeprefix(_OBJECTS))

    def _replicated(self) -> Tree:
        return {"round": self.round, "loss": self.loss, "objects": self._saved.tree()}

    def _local(self) -> dict[str, Any]:
        return {
            "random": randomness.capture(),
            "residuals": self._reducer.residuals() if self._reducer is not None else {},
            "buffers": self._saved.buffers(),
        }

    def _load(self, name: str, replicated: Tree) -> None:
        try:
            if "objects" not in replicated:
                raise Misfit(f"it has no objects, but {', '.join(replicated)}")
            self._saved.load(replicated["objects"])
        except Misfit as error:
            raise BadConfiguration(
                f"checkpoint {name} is of other training code: {error}. Give context.checkpoint() what it was given "
                "then, or give the job an empty checkpoint directory"
            ) from error
        self.round, self.loss = replicated["round"], replicated["loss"]

    def _all_have(self, local: Tree | None) -> bool:
        """Whether every rank has its own state back; not when the model was cut elsewhere."""
        return self._group.every(local is not None and _shapes(local["buffers"]) == _shapes(self._saved.buffers()))

    @torch.no_grad()
    def _load_local(self, local: Tree) -> None:
        for name, buffer in self._saved.buffers().items():
            buffer.copy_(local["buffers"][name])
        if self._reducer is not None and not self._reducer.load_residuals(local["residuals"]):
            say(self._group.rank, "error feedback starts at zero: its state in the checkpoint is of other settings")
        randomness.restore(local["random"])


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
