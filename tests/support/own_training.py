"""Training code of a user: rounds, what kind of model, workers of the loader, its objects' names."""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import ringtrain

ROUNDS, KIND, WORKERS, WIDTH, NAME = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
BATCH = 8
"""Of all ranks."""


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Every sample is drawn anew whenever it is read."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = torch.randn(4) if KIND == "whole" else torch.zeros(4)
        return torch.full((4,), index / 50) + 0.1 * noise, torch.tensor([index / 25 - 1])


def layers() -> list[nn.Module]:
    if KIND == "whole":
        return [
            nn.Linear(4, 40),
            nn.BatchNorm1d(40),
            nn.Dropout(0.2),
            nn.ReLU(),
            nn.Linear(40, WIDTH),
            nn.Linear(WIDTH, 1),
        ]
    return [nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)]


def train(context: ringtrain.Context) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(4)
    model: Any
    if KIND == "whole":
        model = context.wrap(nn.Sequential(*layers()))
    else:
        model = context.pipeline(layers(), functional.mse_loss)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() != 2]},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=ROUNDS)
    loader = context.loader(Noisy(), BATCH // context.group.mesh.data, workers=WORKERS)
    context.checkpoint(**{NAME: model}, optimizer=optimizer, scheduler=scheduler, loader=loader)
    for _ in context.rounds(ROUNDS):
        x, y = next(loader)
        optimizer.zero_grad()
        if KIND == "whole":
            loss: Any = functional.mse_loss(model(x), y)
            loss.backward()
            context.report(loss=loss.item(), tokens=len(x))
        else:
            context.report(loss=model.step(x, y))
        optimizer.step()
        scheduler.step()
    loader.close()


if __name__ == "__main__":
    ringtrain.run(train)
