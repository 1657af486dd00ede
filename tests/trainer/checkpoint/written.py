"""Checkpoints for the commands."""

from collections.abc import Sequence
from pathlib import Path

import torch

from ringtrain.checkpoint.state import State
from ringtrain.checkpoint.tree import Tree
from ringtrain.checkpoint.volume import staging
from ringtrain.contract.generation import Generation
from ringtrain.contract.mesh import Mesh
from trainer.checkpoint.checkpoints import save_states, write_files

TWO = Mesh(data=2)


def tree(round: int) -> Tree:
    """Of the built-in trainer's kind."""
    return {
        "round": round,
        "model": {"head.weight": torch.full((3, 4), float(round)), "head.bias": torch.arange(3.0)},
        "optimizer": {"state": {"head.weight": {"exp_avg": torch.zeros(3, 4), "step": torch.tensor(round)}}},
    }


def write_parts(root: Path, parts: Sequence[Tree], mesh: Mesh, round: int = 5, generation: str = "1.0") -> Path:
    """Part n is held by the ranks whose place in a copy of the model is n."""
    states = [State(parts[mesh.part(rank)], {"own": torch.tensor(rank)}) for rank in range(mesh.size)]
    return save_states(root, states, mesh, mesh, round, Generation.parse(generation))


def write(root: Path, round: int, generation: str = "1.0", content: Tree | None = None) -> Path:
    """One of a data-parallel job of two ranks."""
    return write_parts(root, [tree(round) if content is None else content], TWO, round, generation)


def leave_staged(root: Path, round: int, generation: str) -> None:
    """A save of one rank that was never committed."""
    directory = staging(root, Generation.parse(generation), round)
    write_files(directory, State(tree(round), {}), 0, [0])
