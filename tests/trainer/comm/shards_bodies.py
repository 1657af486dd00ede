"""What ranks do in the distributed tests of groups that share out parameters."""

import torch
import torch.distributed as dist
from torch import nn

from ringtrain.comm.errors import Disagreement
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.shards import Shards
from ringtrain.comm.verify import agree
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.mesh import Mesh
from trainer.comm.ranks import Link


def gather_and_sum(link: Link, rank: int, size: int) -> tuple[list[float], list[float], tuple[int, bool], str]:
    """What all gather of [rank, rank], this rank's two of the summed (rank + 1) * [0, 1, 2, ...], what the meter says,
    and why a mean is refused."""
    group = link.form(rank, size, processes=size, mesh=Mesh(data=size, shards=size))
    shards = group.shards()
    assert isinstance(shards, Shards)
    shards.meter.begin_round()
    whole = torch.empty(2 * size)
    dist.all_gather_single(whole, torch.full((2,), float(rank)), group=shards)
    part = torch.empty(2)
    dist.reduce_scatter_single(part, (rank + 1.0) * torch.arange(2.0 * size), group=shards)
    traffic = shards.meter.end_round()
    refused = ""
    try:
        dist.reduce_scatter_single(part, whole, op=dist.ReduceOp.AVG, group=shards)
    except ValueError as error:
        refused = str(error)
    group.destroy()
    return whole.tolist(), part.tolist(), (traffic.intra.sent_bytes, traffic.exposed_seconds > 0), refused


def agree_on_parts(link: Link, rank: int, size: int, digests: list[str]) -> str:
    group = link.form(rank, size, processes=2, mesh=Mesh(data=size, shards=2))
    try:
        agree(group, 7, digests[rank])
        return "agreed"
    except Disagreement as error:
        return str(error)
    finally:
        group.destroy()


def reduce_whole_parameters(link: Link, rank: int, size: int) -> str:
    group = link.form(rank, size, processes=size, mesh=Mesh(data=size, shards=size))
    try:
        Reducer(nn.Linear(2, 2), group, CommunicationConfig())
        return "connected"
    except ValueError as error:
        return str(error)
    finally:
        group.destroy()
