"""What ranks do in the distributed tests of pipelines of layers."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ringtrain.comm.errors import PeerLost
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.runtime.errors import BadConfiguration
from trainer.api.contexts import EXACT, context
from trainer.comm.ranks import Left, Link

BATCH, LENGTH, WORDS, WIDTH = 8, 6, 11, 16
ROUNDS = 3


class Swapped(nn.Module):
    """Gives, and so gets back in the backward pass, a tensor that does not lie in one piece."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Counting(nn.Module):
    """Its buffer counts how often it ran."""

    runs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return x


def layers() -> list[nn.Module]:
    torch.manual_seed(5)
    return [
        nn.Embedding(WORDS, WIDTH),
        nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)),
        Swapped(),
        Swapped(),
        nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)),
        Counting(),
        nn.Linear(WIDTH, WORDS),
    ]


def batch(round: int) -> tuple[Tensor, Tensor]:
    """Of all ranks."""
    generator = torch.Generator().manual_seed(round)
    tokens, targets = torch.randint(WORDS, (2, BATCH, LENGTH), generator=generator)
    return tokens, targets


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    parallelism: dict[str, Any] = field(default_factory=dict)
    processes: int = 1
    accumulation: int = 1
    weighted: bool = False
    communication: CommunicationConfig = EXACT


def train_all(link: Link, rank: int, size: int, settings: Sequence[Setting]) -> list[dict[str, Any]]:
    return [train(link, rank, size, setting, f"{number}.0") for number, setting in enumerate(settings)]


def train(link: Link, rank: int, size: int, setting: Setting, generation: str) -> dict[str, Any]:
    """Losses and norms, and what the rank holds at the end."""
    ctx = context(
        link, rank, size, generation=generation, parallelism=setting.parallelism, processes=setting.processes,
        communication=setting.communication,
    )  # fmt: skip
    place, _ = ctx.group.mesh.place(rank)
    model = ctx.pipeline(layers(), loss_sum if setting.weighted else mean_loss)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses, norms = [], []
    for round in ctx.rounds(ROUNDS):
        x, y = (each.chunk(ctx.group.mesh.data)[place] for each in batch(round))
        optimizer.zero_grad()
        *first, last = zip(x.chunk(setting.accumulation), y.chunk(setting.accumulation), strict=True)
        with ctx.accumulate():
            for a, b in first:
                model.step(a, b)
        if setting.weighted:
            ctx.weigh(y.numel())
        loss = model.step(*last)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad /= setting.accumulation if not setting.weighted else 1
        norms.append(model.clip_gradients(0.5))
        optimizer.step()
        ctx.report(loss=loss)
        losses.append(loss)
    x, y = (each.chunk(ctx.group.mesh.data)[place] for each in batch(1))
    evaluated = model.evaluate(x.chunk(setting.accumulation)[0], y.chunk(setting.accumulation)[0])
    assert ctx.session.progress is not None
    result = {
        "losses": losses,
        "reported": ctx.session.progress.loss,
        "norms": norms,
        "evaluated": evaluated,
        "model": {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()},
        "whole": list(model.whole),
    }
    ctx.training.close()
    ctx.group.destroy()
    return result


def lose_a_peer(link: Link, rank: int, size: int, lost: int, fault: signal.Signals) -> None:
    """A rank is lost in the middle of a backward pass; what comes out of the others' step."""
    ctx = context(link, rank, size, parallelism={"pipeline": size})
    model = ctx.pipeline(layers(), mean_loss)
    reason = "nothing"
    for round in ctx.rounds(3):
        if round == 3:
            if rank == lost:
                parameter = next(model.parameters())
                parameter.register_hook(lambda _: os.kill(os.getpid(), fault))  # type: ignore[no-untyped-call]
            link.say("training")
        try:
            model.step(*batch(round))
        except (PeerLost, Left) as error:
            reason = type(error).__name__
            break
    ctx.training.close()
    ctx.group.destroy()
    link.say(reason)


def refused(link: Link, rank: int, size: int) -> list[str]:
    """What is said of uses that can never work."""
    said = []

    def attempt(generation: str, parallelism: dict[str, Any], what: Any) -> None:
        ctx = context(link, rank, size, generation=generation, parallelism=parallelism)
        try:
            what(ctx)
            said.append("not refused")
        except (BadConfiguration, ValueError, TypeError) as error:
            said.append(f"{type(error).__name__}: {error}")
        ctx.training.close()
        ctx.group.destroy()

    def tied(ctx: Any) -> None:
        parts = layers()
        parts[-1].weight = nn.Parameter(torch.zeros(WORDS, WIDTH))
        parts[0].weight = parts[-1].weight
        ctx.pipeline(parts, mean_loss)

    def reshaped(ctx: Any) -> None:
        model = ctx.pipeline(layers(), mean_loss)
        model.step(*batch(1))
        model.step(*(each[:4] for each in batch(1)))

    attempt("0.0", {"pipeline": 2}, lambda ctx: ctx.wrap(nn.Linear(2, 2)))
    attempt("0.1", {"pipeline": 2}, lambda ctx: ctx.pipeline(layers()[:1], mean_loss))
    attempt("0.2", {"pipeline": 2}, tied)
    attempt("0.3", {"pipeline": 2}, lambda ctx: ctx.pipeline(layers(), mean_loss).step(*(b[:1] for b in batch(1))))
    attempt("0.4", {"pipeline": 2}, reshaped)
    attempt("0.5", {"pipeline": 2, "precision": "fp16"}, lambda ctx: ctx.pipeline(layers(), mean_loss))
    attempt("0.6", {"precision": "bf16"}, lambda ctx: ctx.wrap(nn.Linear(2, 2)))
    attempt("0.7", {"pipeline": 2}, lambda ctx: ctx.checkpoint(scaler=torch.amp.GradScaler("cpu")))
    return said
