"""Small checkpoints, written as ranks and coordinator write them."""

from pathlib import Path

import torch

from ringtrain.checkpoint.state import State, write_files
from ringtrain.checkpoint.volume import commit, staging
from ringtrain.contract.generation import Generation

GENERATION = Generation(1, 0)


def silent() -> None:
    pass


def state(rank: int, round: int) -> State:
    return State(
        replicated={
            "round": round,
            "model": {f"layer{i}": torch.full((i + 1,), round + i / 4, dtype=torch.bfloat16) for i in range(5)},
        },
        local={"own": torch.tensor([rank, round])},
    )


def save(root: Path, round: int, world_size: int, generation: Generation = GENERATION) -> Path:
    directory = staging(root, generation, round)
    shards = {rank: write_files(directory, state(rank, round), rank, world_size, silent) for rank in range(world_size)}
    return commit(root, generation, round, shards, world_size, job="gpt")


def flip(path: Path) -> None:
    """Flips one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
