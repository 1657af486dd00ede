"""A model given as layers, applied one after another: where it is cut, and what goes through its stages."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ringtrain.comm.group import Group
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.models.costs import Cost
from ringtrain.models.layers import in_turn
from ringtrain.models.stage import Stage, cut
from ringtrain.parallel.partition import boundaries
from ringtrain.parallel.passes import Precision
from ringtrain.parallel.schedule import Piece
from ringtrain.runtime.errors import BadConfiguration


def cut_layers(layers: Sequence[nn.Module], parallelism: ParallelismConfig) -> tuple[Stage, ...]:
    """All stages, cut evenly by parameters unless `boundaries` names the layers with which they begin.

    Raises ValueError when a stage would have no layer, or when two stages share a parameter.
    """
    cuts = parallelism.boundaries
    if parallelism.stages > len(layers):
        raise ValueError(
            f"spec.parallelism asks for {parallelism.stages} stages, and there are {len(layers)} layers: every stage "
            "needs one"
        )
    if cuts is None:
        sizes = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
        cuts = boundaries([Cost(size, size) for size in sizes], parallelism.stages)
    stages = cut(len(layers), cuts)
    owners: dict[nn.Parameter, tuple[Stage, str]] = {}
    for stage in stages:
        for number in range(stage.begin, stage.end):
            for name, parameter in layers[number].named_parameters():
                owner, other = owners.setdefault(parameter, (stage, f"{number}.{name}"))
                if owner is not stage:
                    raise ValueError(
                        f"parameters {other} and {number}.{name} are one, and lie in two stages: untie them, or move "
                        "both into one stage by boundaries"
                    )
    return stages


class StageOfLayers(nn.Module):
    """A stage's layers, one after another."""

    def __init__(self, layers: Sequence[nn.Module], precision: Precision, activation_checkpointing: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._precision = precision
        self._checkpointing = activation_checkpointing

    def forward(self, x: Tensor) -> Tensor:
        with self._precision.computing():
            x = in_turn(self.layers, x, recompute=self._checkpointing)
        # What is sent is sent as it lies in memory.
        return x.contiguous()


@torch.no_grad()
def pieces(modules: Mapping[Stage, nn.Module], count: int, example: Tensor, group: Group) -> list[Piece]:
    """`modules` are this rank's stages of `count`. Every stage is tried once, on `example`, a micro-batch, or on zeros.

    All ranks do it together. Raises BadConfiguration for a stage that does not give one floating-point tensor, or that
    changes what it is given.
    """
    found = []
    takes = _like(list(example.shape), example.dtype)
    by_index = {stage.index: stage for stage in modules}
    for index in range(count):
        stage = by_index.get(index)
        told = None
        if stage is not None:
            told = _try(stage, modules[stage], example if stage.first else torch.zeros_like(takes, device=group.device))
        pipeline = group.mesh.copy_ranks(group.rank)
        shape, dtype = group.all_gather_json(told)[pipeline[index % len(pipeline)]]
        gives = _like(shape, getattr(torch, dtype))
        if stage is not None:
            found.append(Piece(stage=stage, module=modules[stage], takes=takes, gives=gives))
        takes = gives
    return found


def _try(stage: Stage, module: nn.Module, x: Tensor) -> tuple[list[int], str]:
    """(shape, dtype) of what the stage gives. Neither random generators nor buffers change."""
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    unchanged = x._version
    with torch.random.fork_rng([x.device] if x.is_cuda else []):
        y = module(x)
    if x._version != unchanged:
        raise BadConfiguration(
            f"layer {stage.begin} changes its input in place, and it is the first of a stage, whose input is needed as "
            "it was: build it with inplace=False, or cut elsewhere by boundaries"
        )
    for buffer, before in buffers:
        buffer.copy_(before)
    if not isinstance(y, Tensor) or not y.is_floating_point():
        given = str(y.dtype) if isinstance(y, Tensor) else type(y).__name__
        raise BadConfiguration(
            f"layers {stage.begin}-{stage.end - 1} give a {given}: each layer takes one tensor, and gives one of "
            "floating-point numbers"
        )
    return list(y.shape), str(y.dtype).removeprefix("torch.")


def _like(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)
