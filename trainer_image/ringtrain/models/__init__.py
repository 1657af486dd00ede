"""The built-in language models."""

from collections.abc import Sequence

import torch
from torch import nn

from ringtrain.contract.trainer_config import ModelConfig
from ringtrain.models.encoder import Encoder
from ringtrain.models.gpt import GPT
from ringtrain.models.language_model import LanguageModel
from ringtrain.models.stage import Stage, cut

__all__ = ["GPT", "Encoder", "LanguageModel", "build_model", "outline"]


def build_model(
    config: ModelConfig, vocabulary: int, seed: int, stages: Sequence[Stage] | None = None, device: str = "cpu"
) -> LanguageModel:
    """A freshly initialised float32 model on `device`, or those `stages` of it: the same values whichever.

    `vocabulary` counts all token ids that batches may hold, the mask token included.
    """
    model = outline(config, vocabulary, stages)
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            # Not by to_empty: on the meta device that imports the compiler, which a rank should not wait for.
            values = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            setattr(module, name, nn.Parameter(values))
    model.initialize(seed)
    return model


def outline(config: ModelConfig, vocabulary: int, stages: Sequence[Stage] | None = None) -> LanguageModel:
    """The model on the meta device: names, shapes and dtypes, without memory."""
    kind = GPT if config.kind == "gpt" else Encoder
    with torch.device("meta"):
        return kind(config, vocabulary, stages or cut(2 * config.shape[0], ()))
