"""Small checkpoints, written as ranks and coordinator write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ringtrain.checkpoint import shard
from ringtrain.checkpoint.state import Replicated, State, local_image
from ringtrain.checkpoint.tree import Piece
from ringtrain.checkpoint.volume import commit, staging
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from ringtrain.contract.messages import ShardFile

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


def write_image(path: Path, image: shard.Image) -> ShardFile:
    memory = torch.empty(image.size, dtype=torch.uint8)
    image.copy_to(memory)
    return shard.write(path, memory.numpy().data, silent)


def write_files(directory: Path, state: State, rank: int, holders: Sequence[int]) -> list[ShardFile]:
    """A rank's files, without a rank's way through memory."""
    images = [*Replicated.of(state, holders).images(rank), local_image(state, rank)]
    return [write_image(directory / image.name, image) for image in images]


def save(root: Path, round: int, world_size: int, generation: Generation = GENERATION) -> Path:
    """One of a data-parallel job."""
    mesh = Mesh(data=world_size)
    return save_states(root, [state(rank, round) for rank in range(world_size)], mesh, mesh, round, generation)


def save_states(
    root: Path,
    states: Sequence[State],
    mesh: Mesh,
    arrangement: Mesh,
    round: int = 5,
    generation: Generation = GENERATION,
) -> Path:
    """One of a job of `mesh`. States are by rank; those of `arrangement`'s twins are the same."""
    directory = staging(root, generation, round)
    shards = {rank: write_files(directory, own, rank, arrangement.twins(rank)) for rank, own in enumerate(states)}
    return commit(root, generation, round, shards, mesh, job="gpt")


def same(one: Any, other: Any) -> bool:
    """Bit for bit, with all types; dicts in any order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Piece):
        return (one.offset, one.total) == (other.offset, other.total) and same(one.tensor, other.tensor)
    if isinstance(one, torch.Tensor):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and bits(one) == bits(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def flip(path: Path) -> None:
    """Flips one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
