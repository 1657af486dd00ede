"""The parts of which both models consist."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def in_turn(layers: Iterable[nn.Module], x: Tensor, recompute: bool) -> Tensor:
    """What the last of `layers` gives, each of which takes what the one before gave. With `recompute`, a layer keeps
    its input alone for the backward pass, and computes the rest again."""
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False) if recompute and torch.is_grad_enabled() else layer(x)
    return x


class Embedding(nn.Module):
    """Token embedding plus learned position: int64 [batch, length] -> float [batch, length, width]."""

    def __init__(self, vocabulary: int, context_length: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens = _table(vocabulary, width)
        self.positions = _table(context_length, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length > self.positions.num_embeddings:
            raise ValueError(f"a sequence of {length} tokens, but contextLength is {self.positions.num_embeddings}")
        positions = self.positions(torch.arange(length, device=tokens.device))
        embedded: Tensor = self.dropout(self.tokens(tokens) + positions)
        return embedded


class TokenTable(nn.Module):
    """The token embedding alone, where it only projects to logits."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = _table(vocabulary, width)


class Attention(nn.Module):
    """Residual sub-layer x + attention(norm(x)): float [batch, length, width], the same out."""

    def __init__(self, width: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.project_in(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=self.dropout.p if self.training else 0.0, is_causal=self.causal
        )
        out = self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))
        summed: Tensor = x + self.dropout(out)
        return summed


class FeedForward(nn.Module):
    """Residual sub-layer x + mlp(norm(x)), four times as wide inside: float [batch, length, width], the same out."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 4 * width)
        self.project_out = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor = x + self.dropout(self.project_out(functional.gelu(self.project_in(self.norm(x)))))
        return summed


def _table(rows: int, width: int) -> nn.Embedding:
    # Given its weight: torch would draw one, which on the meta device imports the compiler.
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))
