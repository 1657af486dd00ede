"""The decoder: predicts the next token."""

from collections.abc import Sequence

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.language_model import LanguageModel
from ringtrain.models.stage import Stage


class GPT(LanguageModel):
    """Causal: a position sees itself and those before it. Trained on targets shifted by one token."""

    def __init__(self, config: ModelConfig, vocabulary: int, stages: Sequence[Stage]) -> None:
        super().__init__(config, vocabulary, stages, causal=True)
