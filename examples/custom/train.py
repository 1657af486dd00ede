"""Training code of your own: a small network learns to tell whether a point lies inside a ring.

`ringtrain.run` calls `train` again in the same process whenever a replica was lost and has come back. So `train` begins
by reading the newest checkpoint, and keeps nothing of the old members.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

import ringtrain
from ringtrain.checkpoint.reader import Reader
from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.writer import Writer
from ringtrain.comm.reducer import Reducer
from ringtrain.contract.report import Progress

ROUNDS = 300
POINTS_PER_RANK = 256


def train(context: ringtrain.Context) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model.to(context.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with Reducer(model, context.group, context.environment.communication) as reducer:
        first = restore(context, model, optimizer, reducer) + 1
        for round_number in range(first, ROUNDS + 1):
            # A heartbeat; it also notices at once when another replica was lost.
            context.round_started(round_number)
            reducer.begin_round(round_number)
            points, inside = batch(context, round_number)
            loss = nn.functional.binary_cross_entropy_with_logits(model(points).squeeze(1), inside, reduction="sum")
            loss.backward()
            # Sums gradients and losses over all ranks, and divides the gradients by the number of points.
            totals = reducer.finish(weight=len(points), loss=loss.item())
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            progress = Progress(round=round_number, total_rounds=ROUNDS, loss=totals.loss / totals.weight)
            context.beat(progress=progress)
            save(context, round_number, model, optimizer, reducer)


def batch(context: ringtrain.Context, round_number: int) -> tuple[Tensor, Tensor]:
    """This rank's points of a round, (POINTS_PER_RANK, 2), and 1 for those inside the ring, (POINTS_PER_RANK,)."""
    # From rank and round alone: a round that is trained again sees the same points.
    generator = torch.Generator().manual_seed(round_number * context.world_size + context.rank)
    points = torch.rand(POINTS_PER_RANK, 2, generator=generator) * 2 - 1
    radius = points.norm(dim=1)
    inside = ((radius > 0.4) & (radius < 0.8)).float()
    return points.to(context.device), inside.to(context.device)


def restore(context: ringtrain.Context, model: nn.Module, optimizer: torch.optim.Optimizer, reducer: Reducer) -> int:
    """Loads the newest checkpoint that all ranks can read; the rounds that it holds."""
    settings = context.environment.checkpoint
    if settings is None:
        return 0
    restored = Reader(Path(settings.directory), context.session, context.group).load()
    if restored is None:
        return 0
    model.load_state_dict(restored.state.replicated["model"])
    optimizer.load_state_dict(restored.state.replicated["optimizer"])
    # What compression has lost so far is this rank's own; another number of ranks starts without it.
    if restored.state.local is not None:
        reducer.load_residuals(restored.state.local["residuals"])
    return restored.round


def save(
    context: ringtrain.Context,
    round_number: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    reducer: Reducer,
) -> None:
    settings = context.environment.checkpoint
    if settings is None or (round_number % settings.every and round_number != ROUNDS):
        return
    writer = Writer(Path(settings.directory), context.session, context.generation, context.world_size)
    state = {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}
    writer.save(round_number, State(replicated=state, local={"residuals": reducer.residuals()}))


if __name__ == "__main__":
    ringtrain.run(train)
