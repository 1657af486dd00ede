"""What both models share: embedding, sub-layers, head, loss; whole, or some stages of a pipeline."""

import hashlib
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.data.batch import IGNORED, Batch
from ringtrain.models.layers import Attention, Embedding, FeedForward, TokenTable, in_turn
from ringtrain.models.stage import Stage

TIED = "embedding.tokens.weight"
"""The parameter that the first and the last stage of a pipeline both hold."""
_INITIAL_DEVIATION = 0.02


class LanguageModel(nn.Module):
    """A pre-norm Transformer whose output projection is tied to its token embedding.

    `sublayers` holds attention and feed-forward in turn, by number: the grain at which a pipeline is cut. Parameters
    have the names that they have in the whole model, whichever stages are held here.
    """

    def __init__(self, config: ModelConfig, vocabulary: int, stages: Sequence[Stage], *, causal: bool) -> None:
        """Without values: see `initialize`."""
        super().__init__()
        layers, heads, width = config.shape
        self.activation_checkpointing = False
        self._count = 2 * layers
        first = any(stage.first for stage in stages)
        if first:
            self.embedding: Embedding | TokenTable = Embedding(vocabulary, config.context_length, width, config.dropout)
        self.sublayers = nn.ModuleDict()
        for number in (number for stage in stages for number in range(stage.begin, stage.end)):
            kind = FeedForward(width, config.dropout) if number % 2 else Attention(width, heads, config.dropout, causal)
            self.sublayers[str(number)] = kind
        if any(stage.last for stage in stages):
            self.head = self._build_head(width)
            if not first:
                self.embedding = TokenTable(vocabulary, width)

    def _build_head(self, width: int) -> nn.Module:
        """What stands between the last sub-layer and the output projection."""
        return nn.LayerNorm(width)

    def configure(self, parallelism: ParallelismConfig) -> None:
        """How sub-layers are computed."""
        self.activation_checkpointing = parallelism.activation_checkpointing
        if parallelism.compile:
            for sublayer in self.sublayers.values():
                sublayer.compile()

    @torch.no_grad()
    def initialize(self, seed: int) -> None:
        """Gives all parameters their initial values."""
        for name, value in self.initial_values(seed):
            self.get_parameter(name).copy_(value)

    def initial_values(self, seed: int) -> Iterator[tuple[str, Tensor]]:
        """(name, float32 value on the CPU) of every parameter, one by one. Each is drawn from `seed` and its name
        alone: the same ones however the model is cut."""
        for path, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                # The residual stream sums one output of each sub-layer: so its variance does not grow with depth.
                shrunk = math.sqrt(self._count) if path.endswith("project_out") else 1.0
                generator = torch.Generator().manual_seed(_seed(seed, path))
                drawn = torch.empty(module.weight.shape).normal_(std=_INITIAL_DEVIATION / shrunk, generator=generator)
                yield f"{path}.weight", drawn
            elif isinstance(module, nn.LayerNorm):
                yield f"{path}.weight", torch.ones(module.weight.shape)
            if isinstance(module, nn.Linear | nn.LayerNorm):
                yield f"{path}.bias", torch.zeros(module.bias.shape)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the whole model: int64 [batch, length] -> float [batch, length, vocabulary]."""
        return self.run(Stage(0, 1, 0, self._count), tokens)

    def run(self, stage: Stage, x: Tensor) -> Tensor:
        """One stage, which this model must hold. Tokens, int64 [batch, length], go into the first, logits come out of
        the last; between stages goes float [batch, length, width]."""
        if stage.first:
            x = self.embedding(x)
        sublayers = (self.sublayers[str(number)] for number in range(stage.begin, stage.end))
        x = in_turn(sublayers, x, recompute=self.activation_checkpointing)
        return functional.linear(self.head(x), self.embedding.tokens.weight) if stage.last else x

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(`loss_sum` of the whole model, int64 scalar: how many targets)."""
        return loss_sum(self(batch.tokens), batch.targets), count_targets(batch.targets)


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """float32 scalar: cross-entropy in nats SUMMED over the targets; logits [batch, length, vocabulary].

    Sums, not means: gradients of ranks and micro-batches are added and divided by the number of tokens of all.
    """
    return functional.cross_entropy(
        logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )


def count_targets(targets: Tensor) -> Tensor:
    """int64 scalar."""
    return (targets != IGNORED).sum()


def _seed(seed: int, path: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{path}".encode(), digest_size=8).digest()) >> 1
