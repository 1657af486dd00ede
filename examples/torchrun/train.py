"""A script as it is written for torchrun: it knows nothing of Ringtrain, and keeps checkpoints of its own.

A small network learns to tell whether a point lies inside a ring. It runs under torchrun as well:

    torchrun --nproc-per-node 2 examples/torchrun/train.py
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

POINTS_PER_RANK = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--checkpoints", type=Path, default=os.environ.get("RINGTRAIN_CHECKPOINT_DIRECTORY"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    network = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    file = arguments.checkpoints / "newest.pt" if arguments.checkpoints else None
    first = restore(file, network, optimizer) + 1
    say(f"begins with step {first}")
    for step in range(first, arguments.steps + 1):
        points, inside = batch(step, rank)
        loss = nn.functional.binary_cross_entropy_with_logits(model(points).squeeze(1), inside)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % arguments.save_every == 0 or step == arguments.steps:
            if rank == 0:
                save(file, step, network, optimizer)
            say(f"step {step}/{arguments.steps} loss {loss.item():.4f}")
            dist.barrier()
    say(f"final digest {digest(network)}")
    dist.destroy_process_group()


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    """The step's points and, as 0 or 1, whether each is inside: a step that is trained again sees the same ones."""
    generator = torch.Generator().manual_seed(step * dist.get_world_size() + rank)
    points = torch.rand(POINTS_PER_RANK, 2, generator=generator) * 2 - 1
    radius = points.norm(dim=1)
    return points, ((radius > 0.4) & (radius < 0.8)).float()


def restore(file: Path | None, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Loads the newest checkpoint; the steps that it holds, 0 when there is none."""
    if file is None or not file.exists():
        return 0
    state = torch.load(file, weights_only=True)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def save(file: Path | None, step: int, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Ranks are killed at any time: a checkpoint takes its place whole, or not at all."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    torch.save({"step": step, "network": network.state_dict(), "optimizer": optimizer.state_dict()}, part)
    part.replace(file)


def digest(network: nn.Module) -> str:
    """Of all parameters, so that runs can be compared."""
    sha256 = hashlib.sha256()
    for parameter in network.parameters():
        sha256.update(parameter.detach().numpy().tobytes())
    return sha256.hexdigest()[:16]


def say(text: str) -> None:
    """Prints a line, once for the whole job."""
    if dist.get_rank() == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
