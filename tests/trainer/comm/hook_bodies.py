"""What ranks do in the distributed tests of the DDP hook."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ringtrain.comm.ddp_hook import HookState, sum_gradients
from ringtrain.comm.group import Group
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.runtime.failure import is_peer_loss
from trainer.comm.ranks import Left, Link

PLAIN = CommunicationConfig(codec="none")
ZFP = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=0)


def build() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))


def wrap(group: Group, config: CommunicationConfig) -> tuple[DistributedDataParallel, HookState]:
    # Small buckets: several of them, which DDP makes anew after the first round.
    model = DistributedDataParallel(build(), bucket_cap_mb=0.01)
    state = HookState(group, config)
    model.register_comm_hook(state, sum_gradients)
    return model, state


def data(rank: int, round: int) -> Tensor:
    return torch.randn(3 + rank, 40, generator=torch.Generator().manual_seed(10 * round + rank))


def gradients(model: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def rounds(link: Link, rank: int, size: int, config: CommunicationConfig, weighted: bool) -> Any:
    """Gradients after each of four rounds; the last two accumulate two batches."""
    group = link.form(rank, size)
    model, state = wrap(group, config)
    found = []
    for round in range(4):
        model.zero_grad()
        batch = data(rank, round)
        state.weight = float(len(batch)) if weighted else None
        if round >= 2:
            with model.no_sync():
                model(data(rank, 50 + round)).square().mean().backward()
        model(batch).square().mean().backward()
        found.append([gradient.tolist() for gradient in gradients(model)])
    assert state.rounds == 4
    group.destroy()
    return found


def copied(link: Link, rank: int, size: int) -> bool:
    """A copy of the wrapped model works, and so does the model after it."""
    group = link.form(rank, size)
    model, _ = wrap(group, PLAIN)
    model(data(rank, 0)).sum().backward()
    twin = copy.deepcopy(model)
    same = all(torch.equal(one, other) for one, other in zip(model.parameters(), twin.parameters(), strict=True))
    with torch.no_grad():
        same = same and torch.equal(twin(data(rank, 1)), model(data(rank, 1)))
    model.zero_grad()
    model(data(rank, 1)).sum().backward()
    group.destroy()
    return same


def until_lost(link: Link, rank: int, size: int) -> Any:
    """Trains until a rank is lost; what the backward pass raised, and whether it counts as that."""
    group = link.form(rank, size)
    model, _ = wrap(group, ZFP)
    group.barrier()
    link.say("ready")
    try:
        while True:
            model(data(rank, 0)).sum().backward()
    except RuntimeError as error:
        told = type(error).__name__, is_peer_loss(error)
    group.destroy()
    try:
        while True:
            link.poll()
    except Left:
        return told
