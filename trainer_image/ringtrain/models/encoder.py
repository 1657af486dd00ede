"""The encoder: restores masked tokens."""

from collections.abc import Sequence

from torch import nn

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.language_model import LanguageModel
from ringtrain.models.stage import Stage


class Encoder(LanguageModel):
    """Bidirectional: a position sees the whole sequence. Trained on the masked tokens alone."""

    def __init__(self, config: ModelConfig, vocabulary: int, stages: Sequence[Stage]) -> None:
        super().__init__(config, vocabulary, stages, causal=False)

    def _build_head(self, width: int) -> nn.Module:
        # As in BERT, a transform separates "what stands here" from the representation that is passed on.
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
