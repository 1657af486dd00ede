"""Everything that one rank trains with in one generation, and its state as a checkpoint holds it."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from ringtrain.checkpoint import randomness
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tree import Tree, flatten
from ringtrain.comm import buckets
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import state_digest
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.corpus import Corpus
from ringtrain.data.loader import Batches
from ringtrain.models import build_model
from ringtrain.train.optimizer import AdamW
from ringtrain.train.process import seed
from ringtrain.train.schedule import learning_rate


class OtherModel(Exception):
    """A checkpoint is of another model; the message names the first tensor that differs."""


@dataclass(frozen=True, slots=True)
class FinishedRound:
    round: int
    loss: float
    """Mean per token over all ranks, in nats."""
    tokens: float
    """Of all ranks."""
    traffic: RoundTraffic


class Trainer:
    """One rank's model, optimizer, data and reducer. `round` counts the rounds finished, `micro_batches` those done of
    the next one. Built from the seed alone: every generation that starts at round 0 starts with the same bits."""

    def __init__(self, config: TrainerConfig, communication: CommunicationConfig, corpus: Corpus, group: Group) -> None:
        """Raises DataError when the corpus is too short, and what connecting does."""
        self.round = 0
        self.loss: float | None = None
        """Mean per token over all ranks, in nats, of the last finished round."""
        self.micro_batches = 0
        self.residuals_lost = False
        """What encoding had lost until the loaded checkpoint could not be taken over: it starts at zero."""
        self._tokens = 0
        self._loss = 0.0
        self._config = config
        self._group = group
        seed(config.seed)
        self._model = build_model(config.model, corpus.vocabulary).to(group.device)
        seed(config.seed, group.rank)
        self._optimizer = AdamW(self._model, config.optimizer)
        self._batches = Batches(corpus, config, group.rank, group.size)
        self._data_position = self._batches.state_dict()
        self._meter = Meter()
        self._reducer = Reducer(self._model, group, communication, self._meter)

    def begin_round(self) -> None:
        """The time from here to `finish_round` is the round's."""
        self._meter.begin_round()
        self._reducer.begin_round(self.round + 1)

    def train_micro_batch(self) -> None:
        """Forward and backward pass of the round's next micro-batch; the last one's sends gradients meanwhile."""
        batch = self._batches.next().to(self._group.device)
        loss, tokens = self._model.loss(batch)
        last = self.micro_batches + 1 == self._config.batch.accumulation
        with nullcontext() if last else self._reducer.accumulate():
            torch.autograd.backward(loss)
        self._loss += loss.item()
        self._tokens += int(tokens.item())
        self.micro_batches += 1

    def finish_round(self) -> FinishedRound:
        """The optimizer step on the mean gradient over all tokens of all ranks. Raises PeerLost or what polling does;
        then nothing of this trainer is of use any more."""
        totals = self._reducer.finish(self._tokens, self._loss)
        nn.utils.clip_grad_norm_(self._model.parameters(), self._config.optimizer.gradient_clip)
        self._optimizer.step(learning_rate(self._config.optimizer, self.round + 1, self._config.rounds))
        self._optimizer.clear_gradients()
        self.round += 1
        self.loss = totals.loss / (totals.weight or 1.0)
        self.micro_batches = self._tokens = 0
        self._loss = 0.0
        self._data_position = self._batches.state_dict()
        return FinishedRound(self.round, self.loss, totals.weight, self._meter.end_round())

    def state(self) -> State:
        """Between two micro-batches; its tensors are the living ones, so write them before training goes on."""
        gradients = {name: p.grad for name, p in self._model.named_parameters() if p.grad is not None}
        return State(
            replicated={
                "round": self.round,
                "loss": self.loss,
                "model": dict(self._model.state_dict()),
                "optimizer": self._optimizer.state_dict(),
                "data": self._data_position,
                "bucket_layout": self.bucket_layout,
            },
            local={
                "random": randomness.capture(),
                "residuals": self._reducer.residuals(),
                "accumulated": {
                    "micro_batches": self.micro_batches,
                    "tokens": self._tokens,
                    "loss": self._loss,
                    "gradients": gradients,
                },
            },
        )

    def load(self, state: State) -> None:
        """Goes on from `state`, at the start of its round if it was taken in a world of another size.

        Raises OtherModel, or DataError when the text is another.
        """
        saved = state.replicated
        _compare(self._model, saved["model"])
        self._model.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._batches.load_state_dict(saved["data"])
        self._data_position = saved["data"]
        self.round = saved["round"]
        self.loss = saved["loss"]
        if state.local is None:
            seed(self._config.seed, self._group.rank, self.round)
            self.residuals_lost = bool(self._reducer.residuals())
        else:
            self._load_local(state.local)

    def _load_local(self, local: Tree) -> None:
        accumulated = local["accumulated"]
        self.micro_batches = accumulated["micro_batches"]
        self._tokens = accumulated["tokens"]
        self._loss = accumulated["loss"]
        parameters = dict(self._model.named_parameters())
        for name, gradient in accumulated["gradients"].items():
            parameters[name].grad = gradient.to(self._group.device)
        for _ in range(self.micro_batches):
            self._batches.next()
        randomness.restore(local["random"])
        self.residuals_lost = not self._reducer.load_residuals(local["residuals"])

    @property
    def codec(self) -> str:
        """Of large tensors between machines, such as zfp-4."""
        return self._reducer.codec

    @property
    def bucket_layout(self) -> str:
        """Of gradients; a run that goes on with another one adds them in another order."""
        return buckets.digest(self._reducer.layout)

    def parameters_digest(self) -> str:
        return state_digest(self._model.state_dict())

    def digest(self) -> str:
        """Of all that must be the same on every rank."""
        tensors, structure = flatten(self.state().replicated)
        return state_digest(tensors | {"": torch.frombuffer(bytearray(structure.encode()), dtype=torch.uint8)})

    def close(self) -> None:
        self._reducer.close()


def _compare(model: nn.Module, saved: dict[str, torch.Tensor]) -> None:
    own = model.state_dict()
    for name in [*own, *(name for name in saved if name not in own)]:
        theirs, ours = _shape(saved.get(name)), _shape(own.get(name))
        if theirs != ours:
            raise OtherModel(f"its tensor {name} is {theirs}, but the model's is {ours}")


def _shape(tensor: torch.Tensor | None) -> str:
    return "absent" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
