"""What both models share: embedding, sub-layers, head, loss."""

import math

from torch import Tensor, nn
from torch.nn import functional

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.data.batch import IGNORED, Batch
from ringtrain.models.layers import Attention, Embedding, FeedForward

_INITIAL_DEVIATION = 0.02


class LanguageModel(nn.Module):
    """A pre-norm Transformer whose output projection is tied to its token embedding.

    `sublayers` is one flat list, attention and feed-forward in turn: the grain at which a pipeline may be cut.
    """

    def __init__(self, config: ModelConfig, vocabulary: int, *, causal: bool) -> None:
        super().__init__()
        layers, heads, width = config.shape
        self.embedding = Embedding(vocabulary, config.context_length, width, config.dropout)
        self.sublayers = nn.ModuleList()
        for _ in range(layers):
            self.sublayers.append(Attention(width, heads, config.dropout, causal))
            self.sublayers.append(FeedForward(width, config.dropout))
        self.head = self._build_head(width)
        self._initialize()

    def _build_head(self, width: int) -> nn.Module:
        """What stands between the last sub-layer and the output projection."""
        return nn.LayerNorm(width)

    def _initialize(self) -> None:
        """Draws all parameters from torch's global generator, in the order of the modules."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
        # The residual stream sums one output of each sub-layer: scaled so, its variance does not grow with depth.
        for sublayer in self.sublayers:
            if isinstance(sublayer, Attention | FeedForward):
                nn.init.normal_(sublayer.project_out.weight, std=_INITIAL_DEVIATION / math.sqrt(len(self.sublayers)))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits: int64 [batch, length] -> float [batch, length, vocabulary]."""
        x: Tensor = self.embedding(tokens)
        for sublayer in self.sublayers:
            x = sublayer(x)
        return functional.linear(self.head(x), self.embedding.tokens.weight)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(float32 scalar: cross-entropy in nats SUMMED over the targets, int64 scalar: how many targets).

        Sums, not means: gradients of ranks and micro-batches are added and divided by the number of tokens of all.
        """
        logits = self(batch.tokens)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        return loss, (batch.targets != IGNORED).sum()
