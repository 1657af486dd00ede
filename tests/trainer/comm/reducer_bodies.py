"""What ranks do in the distributed tests of the reducer with compression."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from ringtrain.comm.errors import Disagreement
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.reducer import Reducer
from ringtrain.contract.communication import CommunicationConfig
from trainer.comm.ranks import Link

ROUNDS = 4


class Mixed(nn.Module):
    """Parameters of three types; one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.first = nn.Linear(40, 64)
        self.sixteen = nn.Linear(64, 64).half()
        self.brain = nn.Linear(64, 64).bfloat16()
        self.unused = nn.Linear(50, 50)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        hidden = self.sixteen(hidden.half()).tanh()
        return self.brain(hidden.bfloat16()).float()  # type: ignore[no-any-return]


def data(rank: int, round: int) -> Tensor:
    return torch.randn(4 + rank, 40, generator=torch.Generator().manual_seed(10 * round + rank))


def digest(tensors: list[Tensor]) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


class Run:
    def __init__(self, group: Any, config: CommunicationConfig) -> None:
        self.model = Mixed()
        self.meter = Meter()
        self.reducer = Reducer(self.model, group, config, self.meter)
        self.rank = group.rank

    def round(self, round: int, weight: float | None = None) -> tuple[str, RoundTraffic]:
        self.model.zero_grad()
        self.meter.begin_round()
        self.reducer.begin_round(round)
        batch = data(self.rank, round)
        self.model(batch).square().mean().backward()
        self.reducer.finish(weight or float(len(batch)))
        return digest([p.grad for p in self.model.parameters() if p.grad is not None]), self.meter.end_round()


def mixed(link: Link, rank: int, size: int, processes: int, configs: list[CommunicationConfig]) -> Any:
    """For each configuration: the digests of all rounds' gradients, and the last one's traffic."""
    group = link.form(rank, size, processes=processes)
    found = []
    for config in configs:
        run = Run(group, config)
        rounds = [run.round(round) for round in range(1, ROUNDS + 1)]
        assert run.model.unused.weight.grad is not None
        assert not run.model.unused.weight.grad.any()
        found.append(([one for one, _ in rounds], rounds[-1][1], sorted(run.reducer.residuals())))
        run.reducer.close()
    group.destroy()
    return found


def gradients(link: Link, rank: int, size: int, config: CommunicationConfig) -> dict[str, list[float]]:
    """After one round."""
    group = link.form(rank, size)
    run = Run(group, config)
    run.round(1)
    found = {name: p.grad.float().flatten().tolist() for name, p in run.model.named_parameters() if p.grad is not None}
    group.destroy()
    return found


def resumed(link: Link, rank: int, size: int, config: CommunicationConfig) -> Any:
    """(the last two rounds' digests, those of a reducer that took over after two, those without its residuals)"""
    group = link.form(rank, size)
    run = Run(group, config)
    run.round(1)
    run.round(2)
    saved = {name: residual.clone() for name, residual in run.reducer.residuals().items()}
    unbroken = [run.round(round)[0] for round in (3, 4)]
    other = Run(group, config)
    assert other.reducer.load_residuals(saved)
    taken_over = [other.round(round)[0] for round in (3, 4)]
    forgetful = Run(group, config)
    assert not forgetful.reducer.load_residuals({"0.0": torch.zeros(3)})
    assert forgetful.reducer.load_residuals(saved)
    forgetful.reducer.rescale_residuals(0)
    forgotten = [forgetful.round(round)[0] for round in (3, 4)]
    group.destroy()
    return unbroken, taken_over, forgotten


def overflowing(link: Link, rank: int, size: int, config: CommunicationConfig) -> Any:
    """Rank 1 has an infinite gradient in the first round: which parameters show it, and whether it is gone after it."""
    group = link.form(rank, size)
    run = Run(group, config)
    model = run.model
    seen = []
    for round in (1, 2):
        model.zero_grad()
        run.reducer.begin_round(round)
        (model(data(rank, round)).square().mean() * (torch.inf if round == 1 and rank == 1 else 1.0)).backward()
        run.reducer.finish(1.0)
        seen.append([bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None])
    group.destroy()
    return seen


def flipped(link: Link, rank: int, size: int) -> str:
    """A bit of one rank's sum flips before the ranks compare theirs."""
    group = link.form(rank, size)
    run = Run(group, CommunicationConfig(codec="zfp", verify=True, warmup_rounds=0))
    run.round(1)
    if rank == 1:
        wait = group.wait

        def wait_and_flip(collective: Any) -> None:
            wait(collective)
            group.wait = wait  # type: ignore[method-assign]
            run.reducer._sums[0].buffer.view(torch.int16)[3] ^= 1

        group.wait = wait_and_flip  # type: ignore[method-assign]
    try:
        run.round(2)
    except Disagreement as error:
        return str(error)
    return "agreed"


def double(link: Link, rank: int, size: int) -> str:
    group = link.form(rank, size)
    try:
        Reducer(nn.Linear(3, 3).double(), group, CommunicationConfig(), Meter())
    except ValueError as error:
        return str(error)
    return "taken"
