"""Training code of your own: a small network learns to tell whether a point lies inside a ring.

A plain PyTorch loop, but for the lines that say `context`. `ringtrain.run` calls `train` again in the same process
whenever a replica was lost and has come back.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import ringtrain


def train(context: ringtrain.Context) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model = context.wrap(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = context.loader(ring(points=20_000), batch_size=256)
    context.checkpoint(model=model, optimizer=optimizer, loader=loader)
    for _ in context.rounds(300):
        points, inside = next(loader)
        loss = functional.binary_cross_entropy_with_logits(model(points).squeeze(1), inside)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        context.report(loss=loss.item())


def ring(points: int) -> TensorDataset:
    """Places in a square, float32 [points, 2], and whether each lies in the ring, float32 [points]."""
    places = torch.rand(points, 2, generator=torch.Generator().manual_seed(1)) * 2 - 1
    radius = places.norm(dim=1)
    return TensorDataset(places, ((radius > 0.4) & (radius < 0.8)).float())


if __name__ == "__main__":
    ringtrain.run(train)
