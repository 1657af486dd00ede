"""A causal language model of Hugging Face's transformers, built from a configuration: nothing is downloaded.

spec.parallelism alone says how it is trained. With pipeline 1, every rank holds all layers; with more, some of them.
"""

import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM, LlamaRotaryEmbedding

import ringtrain

LENGTH = 64
CONFIG = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=192,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=LENGTH,
    # The two would lie at the two ends of a pipeline.
    tie_word_embeddings=False,
)


def train(context: ringtrain.Context) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = context.pipeline(layers(LlamaForCausalLM(CONFIG)), loss=next_byte_loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = context.loader(Text(Path(json.__file__).parent), batch_size=8)
    context.checkpoint(model=model, optimizer=optimizer, loader=loader)
    for _ in context.rounds(60):
        tokens, targets = next(loader)
        optimizer.zero_grad()
        loss = model.step(tokens, targets)
        model.clip_gradients(1.0)
        optimizer.step()
        context.report(loss=loss, tokens=tokens.numel())


def layers(model: LlamaForCausalLM) -> list[nn.Module]:
    """What the model does, as layers of one tensor in, one out."""
    head = nn.Sequential(model.model.norm, model.lm_head)
    return [model.model.embed_tokens, *(Block(layer) for layer in model.model.layers), head]


class Block(nn.Module):
    """A decoder layer, which wants to be told positions: float [batch, length, width], the same out."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.rotary = LlamaRotaryEmbedding(CONFIG)

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        # Without a mask it is causal.
        out: Tensor = self.layer(x, position_embeddings=self.rotary(x, positions))
        return out


def next_byte_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean in nats; float [batch, length, 256], int64 [batch, length]."""
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Text(Dataset[tuple[Tensor, Tensor]]):
    """Pieces of the Python files in a folder: bytes, and those that come one later; int64 [LENGTH] both."""

    def __init__(self, folder: Path) -> None:
        text = b"".join(file.read_bytes() for file in sorted(folder.glob("*.py")))
        self._bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()

    def __len__(self) -> int:
        return (len(self._bytes) - 1) // LENGTH

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        piece = self._bytes[index * LENGTH : (index + 1) * LENGTH + 1]
        return piece[:-1], piece[1:]


if __name__ == "__main__":
    ringtrain.run(train)
