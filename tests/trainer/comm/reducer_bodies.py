"""What ranks do in the distributed tests of the reducer with compression."""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from torch import Tensor, nn

from ringtrain.comm import summation
from ringtrain.comm.errors import Disagreement
from ringtrain.comm.group import Group
from ringtrain.comm.meter import Meter, RoundTraffic
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import agree_on_checksums
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

    def not_finite(self) -> list[str]:
        named = self.model.named_parameters()
        return [name for name, p in named if p.grad is not None and not p.grad.isfinite().all()]


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


BAD = (torch.inf, torch.nan)


def injected(link: Link, rank: int, size: int, configs: list[CommunicationConfig]) -> list[Any]:
    """One bad value in one parameter's gradient of rank 1, for each configuration, parameter and of two rounds: the
    names of all parameters whose gradients are not finite then."""
    group = link.form(rank, size)
    found = []
    for config in configs:
        run = Run(group, config)
        for name, parameter in run.model.named_parameters():
            for bad in BAD:
                inject = partial(_with, bad if rank == 1 else None)
                hook = parameter.register_hook(inject)  # type: ignore[no-untyped-call]
                for round in (1, 2):
                    run.round(round)
                    found.append((config.codec, round, name, bad, run.not_finite()))
                hook.remove()
        run.round(3)
        found.append((config.codec, 3, "", 0.0, run.not_finite()))
        run.reducer.close()
    group.destroy()
    return found


def _with(bad: float | None, gradient: Tensor) -> Tensor:
    if bad is None:
        return gradient
    changed = gradient.clone()
    changed.view(-1)[5] = bad
    return changed


class Plain(nn.Module):
    """Its gradients are of one type, so that a factor of 4 rounds nothing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.layers = nn.Sequential(nn.Linear(40, 64), nn.Tanh(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def rescaled(link: Link, rank: int, size: int, configs: list[CommunicationConfig]) -> list[bool]:
    """Whether a loss that is 4 times as large from the third round on gives exactly 4 times the gradients."""
    group = link.form(rank, size)
    found = []
    for config in configs:
        gradients = []
        for factor in (1.0, 4.0):
            model = Plain()
            with Reducer(model, group, config) as reducer:
                for round in (1, 2, 3):
                    if round == 3:
                        reducer.rescale_residuals(factor)
                    model.zero_grad()
                    reducer.begin_round(round)
                    (model(data(rank, round)).square().mean() * (factor if round == 3 else 1.0)).backward()
                    reducer.finish(1.0)
                gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        found.append(all(torch.equal(4 * one, other) for one, other in zip(*gradients, strict=True)))
    group.destroy()
    return found


def with_scaler(link: Link, rank: int, size: int, config: CommunicationConfig) -> list[tuple[float, str]]:
    """(scale, digest of parameters) after each of four rounds; rank 1's loss overflows in the second."""
    group = link.form(rank, size)
    model = Plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    found = []
    with Reducer(model, group, config) as reducer:
        for round in (1, 2, 3, 4):
            optimizer.zero_grad()
            reducer.begin_round(round)
            loss = model(data(rank, round)).square().mean() * (torch.inf if (round, rank) == (2, 1) else 1.0)
            before = scaler.get_scale()
            scaler.scale(loss).backward()
            reducer.finish(1.0)
            scaler.step(optimizer)
            scaler.update()
            after = scaler.get_scale()
            reducer.rescale_residuals(0 if after < before else after / before)
            found.append((after, digest(list(model.parameters()))))
            assert all(residual.isfinite().all() for residual in reducer.residuals().values())
    group.destroy()
    return found


def codecs(link: Link, rank: int, size: int, configs: list[CommunicationConfig]) -> list[list[str]]:
    """What each of three rounds sent."""
    group = link.form(rank, size)
    found = []
    for config in configs:
        with Reducer(Plain(), group, config) as reducer:
            names = []
            for round in (1, 2, 3):
                reducer.begin_round(round)
                reducer.finish(1.0)
                names.append(reducer.codec)
        found.append(names)
    group.destroy()
    return found


def flipped_sums(flip: bool) -> AbstractContextManager[Any]:
    """A bit of this rank's sums flips before the ranks compare theirs."""

    def flip_and_compare(group: Group, buckets: Sequence[Tensor]) -> None:
        if flip:
            buckets[0].view(torch.int16)[3] ^= 1
        agree_on_checksums(group, buckets)

    return patch.object(summation, "agree_on_checksums", flip_and_compare)


def flipped(link: Link, rank: int, size: int) -> str:
    group = link.form(rank, size)
    run = Run(group, CommunicationConfig(codec="zfp", verify=True, warmup_rounds=0))
    run.round(1)
    try:
        with flipped_sums(rank == 1):
            run.round(2)
    except Disagreement as error:
        return str(error)
    finally:
        group.destroy()
    return "agreed"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def verified(link: Link, rank: int, size: int) -> float:
    """Exposed seconds of a round, where comparing checksums takes 5 and all else nothing."""
    group = link.form(rank, size)
    clock = Clock()
    meter = Meter(clock)
    reduce = group.all_reduce

    def slow_reduce(tensor: Tensor, op: Any) -> None:
        reduce(tensor, op)
        clock.now += 5

    config = CommunicationConfig(codec="none", verify=True)
    with patch.object(group, "all_reduce", slow_reduce), Reducer(Plain(), group, config, meter) as reducer:
        reducer.finish(1.0)
    group.destroy()
    return meter.end_round().exposed_seconds


def like_a_plain_loop(link: Link, rank: int, size: int) -> list[bool]:
    """Whether parameters are those of training alone, where all ranks have the same batches: an optimizer that goes
    through parameters and gradients side by side in memory, and gradients that have gradients."""
    group = link.form(rank, size)
    images = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(5))
    found = []
    for channels_last, create_graph in ((True, False), (False, True)):
        ended = []
        for alone in (True, False):
            torch.manual_seed(6)
            model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Tanh(), nn.Conv2d(16, 8, 3))
            if channels_last:
                model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
            reducer = None if alone else Reducer(model, group, CommunicationConfig(codec="none"))
            for _ in range(3):
                optimizer.zero_grad()
                torch.autograd.backward(model(images).square().mean(), create_graph=create_graph)
                if reducer is not None:
                    reducer.finish(1.0)
                assert all(p.grad is not None and p.grad.stride() == p.stride() for p in model.parameters())
                optimizer.step()
            if reducer is not None:
                reducer.close()
            ended.append([parameter.detach().clone() for parameter in model.parameters()])
        found.append(all(torch.equal(one, other) for one, other in zip(*ended, strict=True)))
    group.destroy()
    return found


def frozen(link: Link, rank: int, size: int) -> list[tuple[bool, bool]]:
    """Whether (a layer, the others) moved in each of four rounds, where the layer is frozen in the third."""
    group = link.form(rank, size)
    model = Plain()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    found = []
    with Reducer(model, group, CommunicationConfig(verify=True, warmup_rounds=0)) as reducer:
        for round in (1, 2, 3, 4):
            model.layers[0].requires_grad_(round != 3)
            before = [parameter.detach().clone() for parameter in model.parameters()]
            optimizer.zero_grad()
            reducer.begin_round(round)
            model(data(rank, round)).square().mean().backward()
            reducer.finish(1.0)
            optimizer.step()
            moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
            assert moved[0] == moved[1]
            assert moved[2] == moved[3]
            found.append((moved[0], moved[2]))
    group.destroy()
    return found


def unfinished(link: Link, rank: int, size: int) -> str:
    """What is said when a round begins after one whose backward pass failed in the middle."""
    group = link.form(rank, size)
    model = Plain()
    first = model.layers[0].weight

    def fail(_gradient: Tensor) -> NoReturn:
        raise ValueError("in the middle")

    hook = first.register_hook(fail)  # type: ignore[operator]
    with Reducer(model, group, CommunicationConfig(codec="none", bucket_mebibytes=0.001)) as reducer:
        try:
            model(data(rank, 1)).sum().backward()
        except ValueError:
            hook.remove()
        try:
            reducer.begin_round(2)
        except RuntimeError as error:
            return str(error)
        finally:
            group.destroy()
    return "begun"


def refused(link: Link, rank: int, size: int) -> list[str]:
    """What is said of models whose gradients cannot be summed."""
    group = link.form(rank, size)
    told = []
    for model, batch in (
        (nn.Linear(3, 3).double(), torch.ones(2, 3).double()),
        (nn.Embedding(50, 64, sparse=True), torch.tensor([1, 2])),
    ):
        try:
            with Reducer(model, group, CommunicationConfig()):
                model(batch).sum().backward()
        except ValueError as error:
            told.append(str(error))
    group.destroy()
    return told


def without_gradients(link: Link, rank: int, size: int) -> list[float]:
    """The total weight of rounds in which nothing is summed, or nothing of any size."""
    group = link.form(rank, size)
    found = []
    for model in (nn.Identity(), nn.Linear(2, 2).requires_grad_(False), nn.ParameterList([torch.zeros(0, 5)])):
        with Reducer(model, group, CommunicationConfig(verify=True)) as reducer:
            found.append(reducer.finish(2.0).weight)
    group.destroy()
    return found
