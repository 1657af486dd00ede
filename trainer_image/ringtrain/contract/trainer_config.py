"""The built-in trainer's configuration: `spec.trainer` of a TrainingJob."""

from typing import Literal

from pydantic import Field, model_validator

from ringtrain.contract.model import ContractModel

_SIZES = {
    "nano": (2, 2, 64),
    "tiny": (4, 4, 128),
    "small": (6, 6, 384),
    "base": (12, 12, 768),
    "medium": (24, 16, 1024),
    "large": (36, 20, 1280),
}


class ModelConfig(ContractModel):
    """Which Transformer is trained. A size sets layers, heads and width; single fields override it."""

    kind: Literal["gpt", "encoder"] = "gpt"
    """`gpt`: a causal decoder, trained on the next token. `encoder`: bidirectional, trained on masked tokens."""
    size: Literal["nano", "tiny", "small", "base", "medium", "large"] = "tiny"
    """Named size: nano (2 layers, width 64), tiny (4, 128), small (6, 384), base (12, 768), medium (24, 1024),
    large (36, 1280)."""
    layers: int | None = Field(default=None, ge=1, le=512)
    """Transformer layers, in place of the size's."""
    heads: int | None = Field(default=None, ge=1, le=256)
    """Attention heads, in place of the size's; must divide the width."""
    width: int | None = Field(default=None, ge=8, le=65536)
    """Embedding width, in place of the size's."""
    context_length: int = Field(default=128, ge=8, le=1048576)
    """Tokens in one training sequence."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout probability."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(layers, heads, width) after overrides."""
        layers, heads, width = _SIZES[self.size]
        return self.layers or layers, self.heads or heads, self.width or width

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "ModelConfig":
        _, heads, width = self.shape
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads {heads}: set width or heads")
        return self


class DataConfig(ContractModel):
    """The text that is trained on."""

    paths: tuple[str, ...] = Field(min_length=1)
    """Text files or globs (** goes into folders), as the pods see them. `{stdlib}` stands for the folder of Python's
    own standard library, which every image has."""
    tokenizer: str = Field(default="bytes", pattern=r"^(bytes|.*\.json)$")
    """`bytes` (one token a byte, 256 of them), or the path of a Hugging Face `tokenizers` JSON file."""
    mask_probability: float = Field(default=0.15, gt=0, lt=1)
    """Share of tokens that the encoder must restore. Unused by gpt."""


class BatchConfig(ContractModel):
    """How much one round trains on."""

    per_rank: int = Field(default=8, ge=1)
    """Sequences that one rank, or one pipeline, takes at a time."""
    accumulation: int = Field(default=1, ge=1)
    """How often it does so before the round's optimizer step: gradients are summed."""


class OptimizerConfig(ContractModel):
    """AdamW with linear warm-up and cosine decay."""

    learning_rate: float = Field(default=1e-3, gt=0)
    """Peak learning rate."""
    minimum_learning_rate: float = Field(default=1e-4, ge=0)
    """Learning rate at the last round."""
    warmup_rounds: int = Field(default=10, ge=0)
    """Rounds of linear warm-up."""
    weight_decay: float = Field(default=0.1, ge=0)
    """Decoupled weight decay of matrices; vectors have none."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay of the first moment."""
    beta2: float = Field(default=0.95, ge=0, lt=1)
    """Decay of the second moment."""
    gradient_clip: float = Field(default=1.0, gt=0)
    """Largest global gradient norm."""


class EvaluationConfig(ContractModel):
    """The loss on text that is never trained on."""

    every: int = Field(default=50, ge=1)
    """Rounds between two evaluations; the last round is always evaluated."""
    paths: tuple[str, ...] = Field(min_length=1)
    """Text files or globs, like those of data."""
    batches: int = Field(default=8, ge=1)
    """Batches of each data-parallel rank, the same ones every time."""


class TrainerConfig(ContractModel):
    """The built-in language-model trainer."""

    rounds: int = Field(ge=1)
    """Rounds to train: optimizer steps over the global batch."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seeds parameters, dropout and data order."""
    model: ModelConfig = ModelConfig()
    """The model."""
    data: DataConfig
    """The training text."""
    batch: BatchConfig = BatchConfig()
    """Batch size."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer and learning-rate schedule."""
    evaluation: EvaluationConfig | None = None
    """Evaluation during training; none when absent."""
    loggers: tuple[str, ...] = ()
    """Where each round's numbers go, beside status and metrics: tensorboard (event files on the checkpoint volume), or
    MODULE:FUNCTION of the image, which rank 0 calls with the numbers by name, and the round."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of each rank. One makes CPU runs bitwise repeatable."""
