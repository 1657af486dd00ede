"""Passes of a language model through a pipeline."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ringtrain.comm.group import Group
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.data.batch import Batch
from ringtrain.models.language_model import LanguageModel, count_targets, loss_sum
from ringtrain.models.stage import Stage
from ringtrain.parallel.passes import Precision, Sums
from ringtrain.parallel.schedule import Piece, Schedule


class Pipeline:
    """Trains on one batch after another, each cut into micro-batches; all ranks of the pipeline do it together."""

    def __init__(
        self,
        model: LanguageModel,
        stages: Sequence[Stage],
        config: ParallelismConfig,
        shape: tuple[int, int, int, int],
        group: Group,
        precision: Precision,
    ) -> None:
        """`model` holds `stages`. `shape` is that of a batch's logits: [batch, length, width, vocabulary].

        Connects the pipeline's ranks: raises PeerLost, or what polling raises.
        """
        batch, length, width, vocabulary = shape
        self.passes = config.microbatches_of(batch)
        """Backward passes of each parameter in one batch."""
        self._precision = precision
        size = batch // self.passes
        tokens = torch.empty(size, length, dtype=torch.int64, device="meta")
        activations = torch.empty(size, length, width, device="meta", requires_grad=True)
        logits = torch.empty(size, length, vocabulary, dtype=precision.logits, device="meta", requires_grad=True)
        pieces = [
            Piece(
                stage=stage,
                module=_Part(model, stage, precision),
                takes=tokens if stage.first else activations,
                gives=logits if stage.last else activations,
            )
            for stage in stages
        ]
        self._schedule = Schedule(pieces, config, self.passes, self._loss, group)

    def train(self, batch: Batch) -> Sums:
        """Forward and backward passes; gradients are added to the parameters'. Sums are the last stage's, else 0."""
        return self._run(batch, backward=True)

    def evaluate(self, batch: Batch) -> Sums:
        return self._run(batch, backward=False)

    def _run(self, batch: Batch, backward: bool) -> Sums:
        losses = self._schedule.run(batch.tokens, batch.targets, backward)
        if not losses:
            return Sums(0.0, 0)
        loss = torch.stack(losses).sum().item() / self._precision.scale
        return Sums(loss, int(count_targets(batch.targets)))

    def _loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return loss_sum(logits, targets) * self._precision.scale


class _Part(nn.Module):
    """One stage, as torch's pipelines see it."""

    def __init__(self, model: LanguageModel, stage: Stage, precision: Precision) -> None:
        super().__init__()
        self.model = model
        self._stage = stage
        self._precision = precision

    def forward(self, x: Tensor) -> Tensor:
        with self._precision.computing():
            return self.model.run(self._stage, x)
