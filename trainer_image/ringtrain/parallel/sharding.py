"""Sharding: the ranks of a machine share out the parameters of one copy of the model, by torch's FSDP2.

FSDP2 gathers a sub-layer's parameters before it computes, and sums its gradients where their rows belong, inside the
machine. Between machines those rows are summed as any other gradient is: by the Reducer, over the twins.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from ringtrain.checkpoint.tree import Piece
from ringtrain.comm.group import Group
from ringtrain.comm.local import local
from ringtrain.comm.meter import Meter
from ringtrain.comm.polled import gather
from ringtrain.comm.shards import Shards
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import TrainerConfig
from ringtrain.data.batch import Batch
from ringtrain.models import outline
from ringtrain.models.stage import cut
from ringtrain.parallel.part import Part
from ringtrain.parallel.passes import Precision, Sums, WholeModel


class ShardedModel(WholeModel):
    """Passes of a model whose parameters are shared out; all ranks of the machine do them together."""

    def evaluate(self, batch: Batch) -> Sums:
        sums = super().evaluate(batch)
        # What the model itself holds stays gathered for a backward pass, and there is none.
        cast(FSDPModule, self._model).reshard()
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(Part):
    """Some rows of every parameter: as many on each rank, but for the last ones that hold any."""

    peers: dist.ProcessGroup

    def wanted(self, name: str) -> bool | slice:
        if name not in self.parameters:
            return False
        rows = self._rows(name)
        return slice(rows.start, rows.stop)

    def _leaf(self, name: str, held: Tensor) -> Piece:
        return Piece(held, self._rows(name).start, len(self.parameters[name]))

    def _whole(self, name: str) -> Tensor:
        held, total = local(self.parameters[name]), len(self.parameters[name])
        padded = held.new_zeros(_most_rows(total, self.peers.size()), *held.shape[1:])
        padded[: len(held)] = held
        return torch.cat(gather(padded, self.peers))[:total]

    def _rows(self, name: str) -> range:
        return rows(len(self.parameters[name]), self.peers.size(), self.peers.rank())


def rows(total: int, ranks: int, place: int) -> range:
    """Those that the `place`-th rank holds of a parameter with `total` rows: as FSDP2 does it."""
    most = _most_rows(total, ranks)
    return range(total)[place * most : (place + 1) * most]


def _most_rows(total: int, ranks: int) -> int:
    return -(-total // ranks)


def build_shard(
    config: TrainerConfig,
    parallelism: ParallelismConfig,
    vocabulary: int,
    group: Group,
    precision: Precision,
    meter: Meter,
) -> Shard:
    """The values are those of `build_model`. No more than one whole parameter is in memory at a time.

    Connects the ranks of the machine: raises PeerLost, or what polling raises.
    """
    model = outline(config.model, vocabulary)
    model.configure(parallelism)
    peers = group.shards()
    if isinstance(peers, Shards):
        peers.meter = meter
    mesh = DeviceMesh.from_group(peers, group.device.type)
    # Embedding and output projection are one tensor, so the model itself holds it. The head is by itself, for its
    # gradients are complete long before the embedding's.
    for module in (*model.sublayers.values(), model.head, model):
        sharded = fully_shard(module, mesh=mesh)
        # Gradients are sums: they are divided once, by the weight of all ranks.
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)
    model.to_empty(device=group.device)
    with torch.no_grad():
        for name, value in model.initial_values(config.seed):
            own = rows(len(value), peers.size(), peers.rank())
            local(model.get_parameter(name)).copy_(value[own.start : own.stop])
    return Shard(
        model=model,
        stages=cut(2 * config.model.shape[0], ()),
        passes=ShardedModel(model, precision),
        parameters=dict(model.named_parameters()),
        peers=peers,
    )
