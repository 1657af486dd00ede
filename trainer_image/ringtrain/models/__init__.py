"""The built-in language models."""

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.encoder import Encoder
from ringtrain.models.gpt import GPT
from ringtrain.models.language_model import LanguageModel

__all__ = ["GPT", "Encoder", "LanguageModel", "build_model"]


def build_model(config: ModelConfig, vocabulary: int) -> LanguageModel:
    """A freshly initialised float32 model on the CPU; the same seed of torch's global generator gives the same one.

    `vocabulary` counts all token ids that batches may hold, the mask token included.
    """
    return GPT(config, vocabulary) if config.kind == "gpt" else Encoder(config, vocabulary)
