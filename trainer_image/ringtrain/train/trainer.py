"""Everything that one rank trains with in one generation, and its state as a checkpoint holds it."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass

from torch import Tensor, nn

from ringtrain.checkpoint import randomness
from ringtrain.checkpoint.digest import model_digest, tree_digest
from ringtrain.checkpoint.outline import first_difference
from ringtrain.checkpoint.outline import outline as tensor_outline
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tree import Piece, Tree, Unread, rows
from ringtrain.checkpoint.votes import Votes
from ringtrain.comm import buckets
from ringtrain.comm.group import Group
from ringtrain.comm.local import as_gradient
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.reducer import Reducer
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.corpus import Corpus
from ringtrain.data.loader import Batches
from ringtrain.models import outline
from ringtrain.parallel.build import build
from ringtrain.parallel.passes import Precision
from ringtrain.parallel.tied import sum_with_other_end
from ringtrain.train.clip import clip
from ringtrain.train.evaluation import Evaluation
from ringtrain.train.loss_scale import LossScale
from ringtrain.train.optimizer import AdamW
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
    gradient_norm: float
    """Of the mean gradient, before clipping."""
    skipped: bool
    """Gradients were too large for fp16: parameters stay as they were."""
    traffic: RoundTraffic
    votes: Votes
    """Of all ranks."""


class Trainer:
    """One rank's part of the model, optimizer, data and reducer. `round` counts the rounds finished, `micro_batches`
    those done of the next one. Built from the seed alone: every generation that starts at round 0 starts with the same
    bits."""

    def __init__(
        self,
        config: TrainerConfig,
        parallelism: ParallelismConfig,
        communication: CommunicationConfig,
        corpus: Corpus,
        group: Group,
    ) -> None:
        """Raises DataError when the corpus is too short, and what connecting does."""
        self.round = 0
        self.loss: float | None = None
        """Mean per token over all ranks, in nats, of the last finished round."""
        self.micro_batches = 0
        self.residuals_lost = False
        """What encoding had lost until the loaded checkpoint could not be taken over: it starts at zero."""
        self.layout_changed = False
        """Since the loaded checkpoint: gradients are added in another order, so bits may differ."""
        self._tokens = 0
        self._loss = 0.0
        self._config = config
        self._group = group
        self._scaling = LossScale() if parallelism.precision == "fp16" else None
        self._precision = Precision(parallelism.precision, group.device)
        self._meter = Meter()
        self._part = build(config, parallelism, corpus.vocabulary, group, self._precision, self._meter)
        self.model = self._part.model
        """This rank's part."""
        self._vocabulary = corpus.vocabulary
        randomness.seed(config.seed, group.rank)
        self._optimizer = AdamW(self.model, config.optimizer)
        data, _ = group.mesh.place(group.rank)
        self._batches = Batches(corpus, config, data, group.mesh.data)
        self._data_position = self._batches.state_dict()
        self._reducer = Reducer(self.model, group, communication, self._meter)

    def begin_round(self) -> None:
        """The time from here to `finish_round` is the round's."""
        self._meter.begin_round()
        self._reducer.begin_round(self.round + 1, self._part.passes.passes)
        if self._scaling is not None:
            self._precision.scale = self._scaling.scale

    def train_micro_batch(self) -> None:
        """Forward and backward pass of the round's next micro-batch; the last one's sends gradients meanwhile."""
        batch = self._batches.next().to(self._group.device)
        last = self.micro_batches + 1 == self._config.batch.accumulation
        with nullcontext() if last else self._reducer.accumulate():
            sums = self._part.passes.train(batch)
        self._loss += sums.loss
        self._tokens += sums.tokens
        self.micro_batches += 1

    def finish_round(self, votes: Votes, before_step: Callable[[], None]) -> FinishedRound:
        """The optimizer step on the mean gradient over all tokens of all ranks; `votes` are this rank's, and
        `before_step` is called before what `state` gave changes. Raises PeerLost or what polling does; then nothing of
        this trainer is of use any more."""
        totals = self._reducer.finish(self._tokens * self._precision.scale, self._loss, votes.values())
        tokens = totals.weight / self._precision.scale
        gradients = self._part.gradients()
        for name in self._part.shared:
            with self._meter.exposed():
                sum_with_other_end(gradients[name], self._group)
        norm = clip(
            gradients, self._part.copies, self._config.optimizer.gradient_clip, self._part.peers, self._group.device
        )
        before_step()
        skipped = not self._scale_fits(norm)
        if not skipped:
            self._optimizer.step(learning_rate(self._config.optimizer, self.round + 1, self._config.rounds))
        self._optimizer.clear_gradients()
        self.round += 1
        self.loss = totals.loss / (tokens or 1.0)
        self.micro_batches = self._tokens = 0
        self._loss = 0.0
        self._data_position = self._batches.state_dict()
        joined = Votes.of_sums(totals.others)
        return FinishedRound(self.round, self.loss, tokens, norm, skipped, self._meter.end_round(), joined)

    def _scale_fits(self, norm: float) -> bool:
        """Whether a gradient of this norm is one. Sets the loss scale for the next round."""
        if self._scaling is None:
            return True
        finite = math.isfinite(norm)
        before, self._scaling = self._scaling.scale, self._scaling.after(finite)
        # What encoding lost of an overflow is no gradient either.
        self._reducer.rescale_residuals(self._scaling.scale / before if finite else 0.0)
        return finite

    def evaluate(self, evaluation: Evaluation) -> float:
        """The loss on the evaluation's text. Raises PeerLost, or what polling raises."""
        return evaluation.loss(self.model, self._part.passes)

    def state(self) -> State:
        """Between two micro-batches; its tensors are the living ones. Copy the local ones before training goes on, and
        the others before the optimizer's step."""
        residuals = self._reducer.residuals()
        return State(
            settled=True,
            dispensable=True,
            lossless=not (residuals or self.micro_batches or self._config.model.dropout),
            replicated={
                "round": self.round,
                "loss": self.loss,
                "model": self._part.saved(self._part.values()),
                "optimizer": {
                    name: self._part.saved(value) if isinstance(value, dict) else value
                    for name, value in self._optimizer.state_dict().items()
                },
                "loss_scale": asdict(self._scaling) if self._scaling is not None else None,
                "data": self._data_position,
                "bucket_layout": {self._place: self._layout_digest()},
            },
            local={
                "random": randomness.capture(),
                "residuals": residuals,
                "accumulated": {
                    "micro_batches": self.micro_batches,
                    "tokens": self._tokens,
                    "loss": self._loss,
                    "gradients": self._part.gradients(),
                },
            },
        )

    def load(self, state: State) -> None:
        """Goes on from `state`, at the start of its round if it was taken in a world of another size.

        Raises OtherModel, or DataError when the text is another.
        """
        saved = state.replicated
        self.begin_with(state, optimizer=True)
        if self._scaling is not None and saved["loss_scale"] is not None:
            self._scaling = LossScale(**saved["loss_scale"])
        self.layout_changed = saved["bucket_layout"].get(self._place) != self._layout_digest()
        self._batches.load_state_dict(saved["data"])
        self._data_position = saved["data"]
        self.round = saved["round"]
        self.loss = saved["loss"]
        if self._all_fit(state.local) and state.local is not None:
            self._load_local(state.local)
        else:
            randomness.seed(self._config.seed, self._group.rank, self.round)
            self.residuals_lost = bool(self._reducer.residuals())

    def begin_with(self, state: State, *, optimizer: bool) -> None:
        """Takes the parameters of `state`, and the optimizer's moments or not. Raises OtherModel."""
        saved = state.replicated
        _compare(outline(self._config.model, self._vocabulary), saved["model"])
        for name, value in self._part.values().items():
            value.copy_(rows(saved["model"][name]))
        if optimizer:
            self._optimizer.load_state_dict(saved["optimizer"])

    def _all_fit(self, local: Tree | None) -> bool:
        """Not when the model was cut elsewhere: then no rank goes on in the middle of a round. All ranks must ask."""
        own, gradients = self._part.values(), local["accumulated"]["gradients"] if local is not None else {}
        return self._group.every(
            all(name in own and own[name].shape == gradient.shape for name, gradient in gradients.items())
        )

    def _load_local(self, local: Tree) -> None:
        accumulated = local["accumulated"]
        self.micro_batches = accumulated["micro_batches"]
        self._tokens = accumulated["tokens"]
        self._loss = accumulated["loss"]
        for name, gradient in accumulated["gradients"].items():
            parameter = self._part.parameters[name]
            parameter.grad = as_gradient(gradient.to(self._group.device), parameter)
        for _ in range(self.micro_batches):
            self._batches.next()
        randomness.restore(local["random"])
        self.residuals_lost = not self._reducer.load_residuals(local["residuals"])

    @property
    def codec(self) -> str:
        """Of large tensors between machines in the last round, such as zfp-4."""
        return self._reducer.codec

    def needs(self, path: str) -> bool | slice:
        """What of the tensor of that path in a checkpoint's replicated state is of this rank's part of the model."""
        return self._part.wanted(path.rpartition("/")[2])

    def parameters_digest(self) -> str:
        """Of the whole model, however it is cut; all ranks must ask for it. Raises PeerLost, or what polling raises."""
        return model_digest(self._group, self._part.digests())

    def digest(self) -> str:
        """Of all that must be the same on every rank that holds this part of the model."""
        return tree_digest(self.state().replicated)

    def close(self) -> None:
        self._reducer.close()

    @property
    def _place(self) -> str:
        return str(self._group.mesh.part(self._group.rank))

    def _layout_digest(self) -> str:
        return buckets.digest(self._reducer.layout)


def _compare(model: nn.Module, saved: dict[str, Tensor | Piece | Unread]) -> None:
    difference = first_difference(tensor_outline(saved), tensor_outline(model.state_dict()))
    if difference is not None:
        name, theirs, ours = difference
        raise OtherModel(f"its tensor {name} is {theirs}, but the model's is {ours}")
