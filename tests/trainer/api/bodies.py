"""What ranks do in the distributed tests of training code of your own."""

import os
import signal
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import ringtrain
from ringtrain.comm.errors import PeerLost
from ringtrain.comm.verify import state_digest
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.runtime.errors import BadConfiguration
from trainer.api.contexts import context
from trainer.comm.ranks import Left, Link

BATCH = 12
"""Samples of all ranks."""


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 3))


def data(round: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(round)
    return torch.randn(BATCH, 5, generator=generator), torch.randn(BATCH, 3, generator=generator)


def error(model: nn.Module, x: Tensor, y: Tensor) -> Any:
    """Mean squared."""
    return functional.mse_loss(model(x), y)


def gradients(model: nn.Module) -> dict[str, Any]:
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.grad is not None}


def share(tensor: Tensor, ctx: ringtrain.Context) -> Tensor:
    return tensor.chunk(ctx.world_size)[ctx.rank]


def mean(link: Link, rank: int, size: int) -> Any:
    """(digest of the values at the start, whether it is its own model, gradients of two rounds, those after a second
    backward pass onto the first)"""
    ctx = context(link, rank, size)
    torch.manual_seed(rank)
    own = net()
    model = ctx.wrap(own)
    start = state_digest(model.state_dict())
    found = []
    for round in ctx.rounds(2):
        x, y = (share(each, ctx) for each in data(round))
        model.zero_grad()
        error(model, x, y).backward()
        found.append(gradients(model))
    ctx.group.destroy()
    return start, model is own, found


def accumulate(link: Link, rank: int, size: int) -> Any:
    """Gradients of two half batches, and of the whole at once."""
    ctx = context(link, rank, size)
    torch.manual_seed(0)
    model = ctx.wrap(net())
    found = []
    for round in ctx.rounds(2):
        x, y = (share(each, ctx) for each in data(1))
        model.zero_grad()
        parts = 2 if round == 1 else 1
        *first, last = zip(x.chunk(parts), y.chunk(parts), strict=True)
        with ctx.accumulate():
            for a, b in first:
                error(model, a, b).div(parts).backward()
        error(model, last[0], last[1]).div(parts).backward()
        found.append(gradients(model))
    ctx.group.destroy()
    return found


def weighted(link: Link, rank: int, size: int) -> Any:
    """Rank r has r + 1 samples, and the loss is a sum."""
    ctx = context(link, rank, size)
    torch.manual_seed(0)
    model = ctx.wrap(net())
    x, y = data(1)
    first = rank * (rank + 1) // 2
    x, y = x[first : first + rank + 1], y[first : first + rank + 1]
    for _ in ctx.rounds(1):
        ctx.weigh(len(x))
        (len(x) * error(model, x, y)).backward()
    found = gradients(model)
    ctx.group.destroy()
    return found


def two_passes(link: Link, rank: int, size: int) -> Any:
    """A second backward pass in the same round adds its mean to that of the first, as in DDP."""
    ctx = context(link, rank, size)
    torch.manual_seed(0)
    model = ctx.wrap(net())
    x, y = (share(each, ctx) for each in data(1))
    found = []
    for _ in ctx.rounds(1):
        error(model, x, y).backward()
        found.append(gradients(model))
        error(model, x, y).backward()
        found.append(gradients(model))
    ctx.group.destroy()
    return found


def scaled(link: Link, rank: int, size: int) -> Any:
    """A GradScaler, clipping and a scheduler as in a plain loop; rank 1's loss overflows in round 2."""
    feedback = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=0, verify=True)
    ctx = context(link, rank, size, communication=feedback)
    torch.manual_seed(0)
    model = ctx.wrap(nn.Linear(40, 40))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    ctx.checkpoint(model=model, optimizer=optimizer, scaler=scaler)
    found = []
    reducer = ctx.training._model.reducer  # type: ignore[union-attr]
    for round in ctx.rounds(4):
        x = torch.randn(4, 40, generator=torch.Generator().manual_seed(10 * round + rank))
        loss = model(x).square().mean() * (torch.inf if round == 2 and rank == 1 else 1.0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = state_digest(model.state_dict())
        scaler.step(optimizer)
        scaler.update()
        lost = max(float(each.abs().max()) for each in reducer.residuals().values())
        found.append((scaler.get_scale(), before != state_digest(model.state_dict()), lost))
    after = max(float(each.abs().max()) for each in reducer.residuals().values())
    digest = state_digest(model.state_dict())
    ctx.group.destroy()
    return found, after, digest


def lose_a_peer(link: Link, rank: int, size: int, fault: signal.Signals) -> None:
    """Rank 1 is lost in the middle of the backward pass of round 3; what comes out of the others'."""
    ctx = context(link, rank, size)
    model = ctx.wrap(nn.Linear(300, 300))
    reason = "nothing"
    for round in ctx.rounds(3):
        loss: Any = model(torch.randn(2, 300)).square().mean()
        if round == 3:
            if rank == 1:
                model.weight.register_hook(lambda _: os.kill(os.getpid(), fault))  # type: ignore[no-untyped-call]
            link.say("training")
        try:
            loss.backward()
        except (PeerLost, Left) as error:
            reason = type(error).__name__
            break
    ctx.training.close()
    ctx.group.destroy()
    link.say(reason)


def again(link: Link, rank: int, size: int) -> Any:
    """The same model in two generations: nothing of the first is left in it."""
    model = net()
    found = []
    for generation in ("0.0", "0.1"):
        ctx = context(link, rank, size, generation=generation)
        ctx.wrap(model)
        x, y = (share(each, ctx) for each in data(1))
        for _ in ctx.rounds(1):
            model.zero_grad()
            error(model, x, y).backward()
            found.append(gradients(model))
        ctx.training.close()
        ctx.group.destroy()
        error(model, x, y).backward()
    return found


def refused(link: Link, rank: int, size: int) -> list[str]:
    """What is said of uses that can never work."""
    said = []

    def attempt(ctx: ringtrain.Context, what: Any) -> None:
        try:
            what(ctx)
        except BadConfiguration as error:
            said.append(str(error))
        else:
            said.append("not refused")

    ctx = context(link, rank, size)
    attempt(ctx, lambda ctx: ctx.accumulate())
    attempt(ctx, lambda ctx: ctx.wrap(nn.Linear(2 + rank, 2)))
    attempt(ctx, lambda ctx: ctx.wrap(nn.Linear(2, 2).double()))
    model = ctx.wrap(net())
    attempt(ctx, lambda ctx: ctx.wrap(net()))
    attempt(ctx, lambda ctx: ctx.checkpoint(model=model, optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters())))
    attempt(ctx, lambda ctx: ctx.checkpoint(model=model, loss=3))
    attempt(ctx, lambda ctx: list(ctx.rounds(2)))
    attempt(ctx, lambda ctx: ctx.checkpoint(model=model))
    attempt(ctx, lambda ctx: list(ctx.rounds(2)))
    ctx.group.destroy()
    return said


def thawed(link: Link, rank: int, size: int) -> Any:
    """A layer that is frozen after wrap() until round 2: (gradients of round 2, what is said of one that was frozen
    before wrap(), what is said of a layer that is put in place of another)"""
    ctx = context(link, rank, size, generation="0.0")
    torch.manual_seed(0)
    model = ctx.wrap(net())
    model[0].requires_grad_(False)
    for round in ctx.rounds(2):
        model[0].requires_grad_(round == 2)
        model.zero_grad()
        error(model, *(share(each, ctx) for each in data(1))).backward()
    found = gradients(model)
    ctx.training.close()
    ctx.group.destroy()
    said = []
    for number in (1, 2):
        ctx = context(link, rank, size, generation=f"{number}.0")
        own = net()
        own[0].requires_grad_(number == 2)
        model = ctx.wrap(own)
        try:
            for round in ctx.rounds(3):
                if round == 2:
                    model[0].requires_grad_(True)
                    model[4] = nn.Linear(30, 3)
                error(model, *data(1)).backward()
        except BadConfiguration as problem:
            said.append(f"round {round}: {problem}")
        ctx.training.close()
        ctx.group.destroy()
    return found, said


def nested(link: Link, rank: int, size: int) -> str:
    """Reentrant activation checkpointing runs a backward pass inside of another."""
    ctx = context(link, rank, size)
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    ctx.wrap(nn.ModuleList([first, second]))
    text = "nothing"
    for _ in ctx.rounds(1):
        hidden = first(torch.ones(1, 3))
        loss: Any = checkpoint(second, hidden, use_reentrant=True).sum()
        try:
            loss.backward()
        except RuntimeError as error:
            text = str(error)
    ctx.group.destroy()
    return text


def left_early(link: Link, rank: int, size: int) -> Any:
    """The loop is left by break in round 3."""
    ctx = context(link, rank, size)
    model = ctx.wrap(net())
    for round in ctx.rounds(9):
        error(model, torch.ones(1, 5), torch.ones(1, 3)).backward()
        if round == 1 and rank == 0:
            ctx.report(evaluation_loss=0.25)
        ctx.report(loss=float(round + rank), tokens=8)
        if round == 3:
            break
    before = ctx.session.progress
    ctx.training.finish()
    progress = ctx.session.progress
    ctx.training.close()
    ctx.group.destroy()
    assert before is not None
    assert progress is not None
    assert progress.communication is not None
    assert before.communication is not None
    assert progress.tokens_per_second is not None
    # Of the last round.
    seconds = progress.communication.round_seconds - before.communication.round_seconds
    return {
        "rounds": (before.round, progress.round, progress.total_rounds, progress.communication.rounds),
        "losses": (progress.loss, progress.evaluation_loss),
        "tokens": progress.tokens_per_second * seconds,
    }
