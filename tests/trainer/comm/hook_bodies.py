"""What ranks do in the distributed tests of the DDP hook."""

import copy
import gc
import io
from typing import Any, NoReturn
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from ringtrain.comm.ddp_hook import HookState, sum_gradients
from ringtrain.comm.errors import Disagreement, PeerLost
from ringtrain.comm.group import Group
from ringtrain.comm.lane import Lane
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.runtime.failure import exit_code, is_peer_loss
from trainer.comm.ranks import Left, Link
from trainer.comm.reducer_bodies import flipped_sums

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


def copied(link: Link, rank: int, size: int) -> dict[str, list[float]]:
    """Gradients and rounds summed: of a model, its copy, and the copy once the hook is registered there too."""
    group = link.form(rank, size)
    model, state = wrap(group, PLAIN)

    def trained(each: DistributedDataParallel) -> list[float]:
        each.zero_grad()
        each(data(rank, 0)).sum().backward()
        return [*torch.cat([gradient.flatten() for gradient in gradients(each)]).tolist(), state.rounds]

    found = {"model": trained(model)}
    twin = copy.deepcopy(model)
    found["copy"] = trained(twin)
    twin.register_comm_hook(state, sum_gradients)
    found["registered"] = trained(twin)
    found["model again"] = trained(model)
    group.destroy()
    return found


class Types(nn.Module):
    """Layers of equal shapes and different types, whose gradients are not ready in the order of the model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.last = nn.Linear(64, 64, bias=False)
        self.first = nn.Linear(64, 64, bias=False).half()
        self.middle = nn.Linear(64, 64, bias=False).bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.middle(self.first(x.half()).bfloat16()).float()
        return self.last(hidden)  # type: ignore[no-any-return]


def types(link: Link, rank: int, size: int) -> list[list[tuple[str, float, float]]]:
    """(dtype, greatest gradient, the same without DDP) of each parameter, for three rounds: the first layer's would
    overflow float16 if it were the last one's."""
    group = link.form(rank, size)
    x = torch.full((2, 64), 300.0)
    alone = Types()
    (alone(x).sum() * 100).backward()
    model = DistributedDataParallel(Types(), bucket_cap_mb=0.01)
    model.register_comm_hook(HookState(group, PLAIN), sum_gradients)
    found = []
    for _ in range(3):
        model.zero_grad()
        (model(x).sum() * 100).backward()
        pairs = zip(gradients(model), gradients(alone), strict=True)
        found.append([(str(g.dtype), float(g.abs().max()), float(own.abs().max())) for g, own in pairs])
    group.destroy()
    return found


class Twins(nn.Module):
    """Two equal matrices in one bucket, which DDP swaps when it makes its buckets anew."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())  # type: ignore[no-any-return]


def swapped(link: Link, rank: int, size: int) -> list[tuple[list[str], bool]]:
    """For each of three rounds: DDP's bucket, and whether residuals of an earlier one were added."""
    group = link.form(rank, size)
    own = Twins()
    names = {id(parameter): name for name, parameter in own.named_parameters()}
    model, state = DistributedDataParallel(own), HookState(group, ZFP)
    found = []

    def hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        before = [residual.data_ptr() for residual in state.residuals().values()]
        future = sum_gradients(state, bucket)
        after = [residual.data_ptr() for residual in state.residuals().values()]
        found.append(([names[id(parameter)] for parameter in bucket.parameters()], before == after))
        return future

    model.register_comm_hook(state, hook)
    for round in range(3):
        model.zero_grad()
        model(torch.randn(2, 64, generator=torch.Generator().manual_seed(round))).square().sum().backward()
        assert len(state.residuals()) == 1  # Of the bucket there is, and no other.
    group.destroy()
    return found


def shared(link: Link, rank: int, size: int) -> bool:
    """Whether two models with one state train as each does with its own, error feedback included."""
    group = link.form(rank, size)
    runs = []
    for one_state in (False, True):
        first, second = build(), Twins()
        state = HookState(group, ZFP)
        states = (state, state if one_state else HookState(group, ZFP))
        wrapped = [DistributedDataParallel(first), DistributedDataParallel(second)]
        for each, its in zip(wrapped, states, strict=True):
            each.register_comm_hook(its, sum_gradients)
        found = []
        for round in range(4):
            for each, width in zip(wrapped, (40, 64), strict=True):
                each.zero_grad()
                x = torch.randn(2, width, generator=torch.Generator().manual_seed(10 * round + rank))
                each(x).square().sum().backward()
                found += gradients(each)
        runs.append(found)
        # And in one backward pass: the sums of both are waited for.
        both = wrapped[1](torch.nn.functional.pad(wrapped[0](data(rank, 9)), (0, 62)))
        both.sum().backward()
    group.destroy()
    return all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


def dropped(link: Link, rank: int, size: int) -> list[int]:
    """Residuals that a state keeps while one model after another is made and dropped."""
    group = link.form(rank, size)
    state = HookState(group, ZFP)
    found = []
    for _ in range(3):
        model = DistributedDataParallel(Twins())
        model.register_comm_hook(state, sum_gradients)
        model(torch.ones(2, 64)).sum().backward()
        found.append(len(state.residuals()))
        del model
        gc.collect()
    group.destroy()
    return found


def of_range(link: Link, rank: int, size: int) -> dict[str, float]:
    """The first gradient of a float16 layer: of finite ones that are weighted, and of infinite ones."""
    group = link.form(rank, size)
    found = {}
    for name, weight, factor in (
        ("weighted", 4096.0, 1.0),
        ("infinite", None, torch.inf),
        ("infinite, weighted", 2.0, torch.inf),
    ):
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(40, 64).half())
        state = HookState(group, PLAIN)
        model.register_comm_hook(state, sum_gradients)
        x = torch.full((2, 40), 16.0, dtype=torch.float16)
        model(x).sum().backward()
        model.zero_grad()
        state.weight = weight  # From the second backward pass on.
        (model(x).sum() * (factor if rank == 0 else 1.0)).backward()
        found[name] = float(gradients(model)[0][0, 0])
    group.destroy()
    return found


def faults(link: Link, rank: int, size: int) -> list[tuple[str, bool, int]]:
    """What a backward pass raises for faults in the engine: its type, whether it is taken for a lost peer, and the exit
    code."""
    told = []
    for kind in (ValueError, MemoryError, torch.OutOfMemoryError):

        def fail(*_: object, kind: type[Exception] = kind) -> NoReturn:
            raise kind("no room")

        group = link.form(rank, size)
        model, _ = wrap(group, PLAIN)
        try:
            with patch.object(Lane, "all_reduce", fail):
                model(data(rank, 0)).sum().backward()
        except Exception as error:
            lost = isinstance(error, RuntimeError) and is_peer_loss(error)
            told.append((type(error).__name__, lost, int(exit_code(error))))
        group.destroy()
    return told


def refused(link: Link, rank: int, size: int) -> list[str]:
    """What is said of models whose gradients cannot be summed, and of a group that was destroyed."""
    group = link.form(rank, size)
    told = []
    mixed = DistributedDataParallel(Types(), static_graph=True)
    mixed.register_comm_hook(HookState(group, PLAIN), sum_gradients)
    try:
        mixed(torch.ones(2, 64)).sum().backward()
    except (ValueError, RuntimeError) as error:
        told.append(str(error))
    for model, batch in (
        (nn.Linear(3, 3).double(), torch.ones(2, 3).double()),
        (nn.Embedding(50, 64, sparse=True), torch.tensor([1, 2])),
        (nn.Linear(3, 3), torch.ones(2, 3)),
    ):
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(HookState(group, PLAIN), sum_gradients)
        if model.weight.dtype == torch.float32 and batch.dtype == torch.float32:
            wrapped(batch).sum().backward()
            group.destroy()
        try:
            wrapped(batch).sum().backward()
        except (ValueError, RuntimeError) as error:
            told.append(str(error))
    return told


def settings(link: Link, rank: int, size: int) -> list[tuple[bool, str, int, int]]:
    """For different ways to sum and to wrap: whether gradients are those of DDP alone, the codec, the rounds, and the
    bytes sent to other machines in the last one."""
    group = link.form(rank, size)
    found = []
    cases: list[tuple[CommunicationConfig, dict[str, Any]]] = [
        (PLAIN, {}),
        (PLAIN.model_copy(update={"verify": True}), {}),
        (PLAIN.model_copy(update={"overlap": False}), {}),
        (PLAIN, {"find_unused_parameters": True}),
        (PLAIN.model_copy(update={"verify": True}), {"static_graph": True}),
        (PLAIN, {"gradient_as_bucket_view": True}),
        (CommunicationConfig(warmup_rounds=2), {}),
    ]
    for config, options in cases:
        plain = DistributedDataParallel(build(), bucket_cap_mb=0.01)
        model = DistributedDataParallel(build(), bucket_cap_mb=0.01, **options)
        state = HookState(group, config)
        model.register_comm_hook(state, sum_gradients)
        for round in range(3):
            for each in (plain, model):
                each.zero_grad()
                each(data(rank, round)).square().mean().backward()
            traffic = state.traffic()
        same = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients(plain), gradients(model), strict=True))
        assert 0 < traffic.exposed_seconds <= traffic.round_seconds
        assert traffic.communication_seconds > 0
        found.append((same, state.codec, state.rounds, traffic.inter.sent_bytes))
    group.destroy()
    return found


def unequal(link: Link, rank: int, size: int) -> list[str]:
    """What a backward pass raises when ranks count other rounds, and when one of them has no weight."""
    told = []
    for rounds, weight in ((rank, None), (0, 2.0 if rank == 0 else None)):
        group = link.form(rank, size)
        model, state = wrap(group, ZFP)
        state.rounds, state.weight = rounds, weight
        try:
            model(data(rank, 0)).sum().backward()
        except Disagreement as error:
            told.append(str(error))
        group.destroy()
    return told


def saved(link: Link, rank: int, size: int) -> list[bool]:
    """Whether a wrapped model that was saved whole has its parameters again, and sums as DDP does."""
    group = link.form(rank, size)
    model, _ = wrap(group, ZFP)
    model(data(rank, 0)).sum().backward()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    plain = DistributedDataParallel(build())
    found = [all(torch.equal(a, b) for a, b in zip(model.parameters(), read.parameters(), strict=True))]
    for each in (read, plain):
        each.zero_grad()
        each(data(rank, 1)).sum().backward()
    found.append(all(torch.allclose(a, b) for a, b in zip(gradients(read), gradients(plain), strict=True)))
    group.destroy()
    return found


def flipped(link: Link, rank: int, size: int) -> str:
    group = link.form(rank, size)
    model, _ = wrap(group, ZFP.model_copy(update={"verify": True}))
    model(data(rank, 0)).sum().backward()
    try:
        with flipped_sums(rank == 1):
            model(data(rank, 1)).sum().backward()
    except Disagreement as error:
        return str(error)
    finally:
        group.destroy()
    return "agreed"


def resumed(link: Link, rank: int, size: int) -> list[list[list[float]]]:
    """Gradients of the fourth round: in one run, when another state goes on with its residuals, with residuals that
    were forgotten, and with residuals and loss 4 times as large."""
    group = link.form(rank, size)
    found = []
    saved: dict[str, Tensor] = {}
    for load, factor in ((False, 1.0), (True, 1.0), (True, 0.0), (True, 4.0)):
        model, state = wrap(group, ZFP)
        assert not state.load_residuals({"0.0": torch.ones(64)})
        for round in range(3):
            model.zero_grad()
            # Another state sees other data before it goes on.
            model(data(rank, round + 20 * load)).square().mean().backward()
        if load:
            assert state.load_residuals(saved)
            state.rescale_residuals(factor)
        else:
            saved = {name: residual.clone() for name, residual in state.residuals().items()}
        model.zero_grad()
        (model(data(rank, 3)).square().mean() * (factor or 1.0)).backward()
        found.append([gradient.flatten().tolist() for gradient in gradients(model)])
    group.destroy()
    return found


def until_lost(link: Link, rank: int, size: int) -> str:
    """Trains until a rank is lost; what the backward pass raised."""
    group = link.form(rank, size)
    model, _ = wrap(group, ZFP)
    group.barrier()
    link.say("ready")
    try:
        while True:
            model(data(rank, 0)).sum().backward()
    except (PeerLost, Left) as error:
        told = type(error).__name__
    group.destroy()
    try:
        while True:
            link.poll()
    except Left:
        return told
