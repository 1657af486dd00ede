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
        except PeerLost:
            said.append("PeerLost")
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

    def step(ctx: Any, parts: Any, loss: Any = mean_loss) -> None:
        ctx.pipeline(parts, loss).step(*batch(1))

    def clamped(ctx: Any) -> None:
        step(ctx, [*layers()[:2], nn.ReLU(inplace=True), *layers()[2:]])

    def other_batches(ctx: Any) -> None:
        ctx.pipeline(layers(), mean_loss).step(*batch(rank))

    def unfrozen(ctx: Any) -> None:
        parts = layers()
        parts[0].requires_grad_(False)
        parts[-1].requires_grad_(False)
        model = ctx.pipeline(parts, mean_loss)
        for round in ctx.rounds(2):
            model.requires_grad_(round == 2)
            model.step(*batch(round))

    attempt("0.0", {"pipeline": 2}, lambda ctx: ctx.wrap(nn.Linear(2, 2)))
    attempt("0.1", {"pipeline": 2}, lambda ctx: ctx.pipeline(layers()[:1], mean_loss))
    attempt("0.2", {"pipeline": 2}, tied)
    attempt("0.3", {"pipeline": 2}, lambda ctx: ctx.pipeline(layers(), mean_loss).step(*(b[:1] for b in batch(1))))
    attempt("0.4", {"pipeline": 2}, reshaped)
    attempt("0.5", {"pipeline": 2, "precision": "fp16"}, lambda ctx: ctx.pipeline(layers(), mean_loss))
    attempt("0.6", {"precision": "bf16"}, lambda ctx: ctx.wrap(nn.Linear(2, 2)))
    attempt("0.7", {"pipeline": 2}, lambda ctx: ctx.checkpoint(scaler=torch.amp.GradScaler("cpu")))
    attempt("0.8", {}, lambda ctx: ctx.pipeline(iter([]), mean_loss))
    attempt("0.9", {"pipeline": 2, "boundaries": (2,)}, clamped)
    attempt("0.10", {"pipeline": 2}, other_batches)
    attempt("0.11", {"pipeline": 2}, unfrozen)
    attempt("0.12", {"pipeline": 2}, lambda ctx: ctx.pipeline(layers(), mean_loss) and ctx.weigh(-1))
    return said


def refused_by_one(link: Link, rank: int, size: int) -> list[str]:
    """What becomes of the last rank of a pipeline when its stage, or the loss, raises; the others lose a peer."""

    class Broken(nn.Module):
        def __init__(self, error: Exception, runs: int, backward: bool) -> None:
            super().__init__()
            self.error, self.runs, self.backward = error, runs, backward

        def fail(self, *_: Any) -> None:
            self.runs -= 1
            if self.runs == 0:
                raise self.error

        def forward(self, x: Tensor) -> Tensor:
            if self.backward and x.requires_grad:
                x = x.clone()
                x.register_hook(self.fail)  # type: ignore[no-untyped-call]
            elif not self.backward:
                self.fail()
            return x

    cases: list[tuple[list[nn.Module], Any]] = [
        ([Broken(KeyError("mine"), 3, backward=False)], mean_loss),
        ([Broken(MemoryError("no more"), 3, backward=True)], mean_loss),
        ([], lambda outputs, targets: mean_loss(outputs, targets).detach()),
        ([], lambda outputs, _: outputs.sum(dim=(1, 2))),
    ]
    said = []
    for number, (more, loss) in enumerate(cases):
        ctx = context(link, rank, size, generation=f"{number}.0", parallelism={"pipeline": size})
        model = ctx.pipeline([*layers(), *more], loss)
        for _ in ctx.rounds(1):
            try:
                model.step(*batch(1))
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}" if rank == size - 1 else type(error).__name__)
                break
        ctx.training.close()
        ctx.group.destroy()
    return said


def odd_all(link: Link, rank: int, size: int) -> list[dict[str, Any]]:
    """Models of which a stage has nothing to train, or no parameters."""
    results = []
    for number in range(3):
        torch.manual_seed(5)
        parts: list[nn.Module] = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        match number:
            case 0:
                nn.ModuleList(parts[:2]).requires_grad_(False)
            case 1:
                nn.ModuleList(parts[2:]).requires_grad_(False)
            case 2:
                parts[2:] = [nn.Tanh(), nn.Tanh()]
        layout = {"pipeline": size, "boundaries": (2,)} if size > 1 else {}
        ctx = context(link, rank, size, generation=f"{number}.0", parallelism=layout)
        model = ctx.pipeline(parts, functional.mse_loss)
        norms = []
        for round in ctx.rounds(2):
            generator = torch.Generator().manual_seed(round)
            x, y = torch.randn(2, BATCH, WIDTH, generator=generator)
            model.zero_grad()
            model.step(x, y)
            norms.append(model.clip_gradients(0.1))
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad)
        results.append({"norms": norms, "model": {n: t.numpy().copy() for n, t in model.state_dict().items()}})
        ctx.training.close()
        ctx.group.destroy()
    return results
