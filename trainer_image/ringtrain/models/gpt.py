"""The decoder: predicts the next token."""

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.language_model import LanguageModel


class GPT(LanguageModel):
    """Causal: a position sees itself and those before it. Trained on targets shifted by one token."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, causal=True)
