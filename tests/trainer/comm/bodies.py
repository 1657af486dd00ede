"""What ranks do in the distributed tests of comm."""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import ReduceOp

from ringtrain.comm import reaper
from ringtrain.comm.errors import Disagreement, PeerLost
from ringtrain.comm.meter import Meter
from ringtrain.comm.polling import poll_until
from ringtrain.comm.reducer import Reducer
from ringtrain.comm.verify import agree, state_digest
from ringtrain.contract.communication import CommunicationConfig
from trainer.comm.ranks import Left, Link, default_group_exists


def collectives(link: Link, rank: int, size: int) -> dict[str, Any]:
    group = link.form(rank, size)
    summed = torch.full((5,), float(rank + 1))
    group.all_reduce(summed)
    largest = torch.tensor([rank, -rank])
    group.all_reduce(largest, ReduceOp.MAX)
    sent = torch.arange(3) + 10 * rank
    group.broadcast(sent, src=size - 1)
    group.barrier()
    result = {
        "rank": (group.rank, group.size, group.backend, group.device.type),
        "sum": summed.tolist(),
        "max": largest.tolist(),
        "broadcast": sent.tolist(),
        "bytes": group.all_gather_bytes(b"x" * rank),
        "json": group.all_gather_json({"rank": rank, "name": f"replica-{rank}"}),
        "default": default_group_exists(),
    }
    group.destroy()
    group.destroy()
    result["default after destroy"] = default_group_exists()
    return result


def survive(link: Link, rank: int, size: int, generation: str) -> str:
    """Trains (all-reduces) generation after generation, as the test tells it to. Reports each step."""
    while True:
        group = link.form(rank, size, generation)
        try:
            group.barrier()
            link.say(("formed", generation))
            for step in range(1_000_000):
                # Large enough to be on its way when a member dies.
                values = torch.full((1_000_000,), float(rank + step))
                collective = group.start_all_reduce(values)
                if step == 3:
                    link.say(("started", step))
                group.wait(collective)
                expected = sum(other + step for other in range(size))
                assert values[0] == values[-1] == expected
        except (Left, PeerLost) as reason:
            # Still inside `except`, where the traceback holds the collective: destroying must work all the same.
            group.destroy()
            link.say(("left", type(reason).__name__))
            word = reason.args[0] if isinstance(reason, Left) else link.hear()
        if word == "leave":
            word = link.hear()
        if word == "end":
            return "ended"
        generation = word


def fall_silent(link: Link, rank: int, size: int, generation: str, steps: int) -> None:
    """Takes part in so many steps of `survive`, and then in no more."""
    group = link.form(rank, size, generation)
    group.barrier()
    link.say(("formed", generation))
    for step in range(steps):
        group.all_reduce(torch.full((1_000_000,), float(rank + step)))
    link.say("silent")
    link.hear()


def form_and_leave(link: Link, rank: int, size: int) -> Any:
    """Forms a group that some member never joins, until told to leave; then forms one that is complete."""
    try:
        link.form(rank, size + 1, "0.0")
    except Left as left:
        link.say(("left", default_group_exists()))
        size = left.args[0]
    group = link.form(rank, size, "0.1")
    total = torch.ones(1)
    group.all_reduce(total)
    group.destroy()
    return total.item()


def exit_after_leaving(link: Link, rank: int, size: int, port: int) -> None:
    """Ends as a script does, just after it gave up forming a group (at `port`, where there may be no store)."""
    link.port = port
    try:
        link.form(rank, size)
    except Left:
        ctypes.pythonapi.Py_Exit(70)


def form_too_late(link: Link, rank: int, size: int) -> str:
    try:
        link.form(rank, size, seconds=1.0)
    except PeerLost as error:
        return str(error)
    return "formed"


def reform(link: Link, rank: int, size: int, times: int) -> str:
    """Forms one generation after another in the same process, and waits until the former ones are freed."""
    for attempt in range(times):
        group = link.form(rank, size, f"0.{attempt}")
        total = torch.ones(1)
        group.all_reduce(total)
        group.destroy()
        assert total.item() == size
    poll_until(lambda: reaper.waiting() == 0, link.poll)
    return "freed"


def exit_early(link: Link, rank: int, size: int, destroy: bool) -> None:
    """Ends as a script does, with a collective running that cannot end."""
    group = link.form(rank, size)
    group.barrier()
    group.start_all_reduce(torch.ones(1_000_000))
    link.say("started")
    if destroy:
        group.destroy()
    ctypes.pythonapi.Py_Exit(70)


class Net(nn.Module):
    """Small, with a branch that some rounds do not use, and a parameter used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 40)
        self.branch = nn.Linear(40, 40)
        self.last = nn.Linear(40, 3)

    def forward(self, x: Tensor, branch: bool = True) -> Tensor:
        hidden = self.first(x).tanh()
        if branch:
            hidden = hidden + self.branch(hidden).tanh() + self.branch(hidden.cos())
        return self.last(hidden)  # type: ignore[no-any-return]


def plain(bucket_bytes: int) -> CommunicationConfig:
    return CommunicationConfig(codec="none", bucket_mebibytes=bucket_bytes / 2**20)


def net() -> Net:
    torch.manual_seed(5)
    return Net()


def data(rank: int, micro: int = 0) -> Tensor:
    """A different number of rows for each rank and micro-batch."""
    generator = torch.Generator().manual_seed(100 * rank + micro)
    return torch.randn(2 + 3 * rank + micro, 6, generator=generator)


def gradients(model: nn.Module) -> dict[str, list[float]]:
    return {
        name: parameter.grad.flatten().tolist()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def reduce(link: Link, rank: int, size: int, bucket_bytes: int, micro_batches: int, branch_of: list[bool]) -> Any:
    """One round on uneven data; `branch_of[rank]`: whether the rank's last micro-batch uses the branch."""
    group = link.form(rank, size)
    model, meter = net(), Meter()
    reducer = Reducer(model, group, plain(bucket_bytes), meter)
    rounds = []
    for _ in range(2):  # The second round must not see the first one's sums.
        model.zero_grad(set_to_none=True)
        loss, rows = 0.0, 0
        for micro in range(micro_batches):
            final = micro == micro_batches - 1
            x = data(rank, micro)
            batch_loss = model(x, branch_of[rank] or not final).square().sum()
            if final:
                batch_loss.backward()
            else:
                with reducer.accumulate():
                    batch_loss.backward()
            loss, rows = loss + batch_loss.item(), rows + len(x)
        totals = reducer.finish(weight=rows, loss=loss)
        rounds.append((gradients(model), totals.weight, totals.loss))
    assert rounds[0] == rounds[1]
    traffic = meter.end_round()
    reducer.close()
    closed = gradients(model)
    model(data(rank)).sum().backward()  # No hook is left.
    group.destroy()
    return *rounds[0], traffic, closed


def permuted(link: Link, rank: int, size: int, rounds: int) -> Any:
    """Gradients become ready in an order of each rank's own; returns (orders, gradients) of all rounds."""
    group = link.form(rank, size)
    model = nn.ParameterList([nn.Parameter(torch.ones(100 + 300 * index)) for index in range(6)])
    reducer = Reducer(model, group, plain(4000), Meter())
    order: list[int] = []
    for index, parameter in enumerate(model):
        parameter.register_post_accumulate_grad_hook(lambda _, index=index: order.append(index))
    results = []
    for number in range(rounds):
        model.zero_grad(set_to_none=True)
        order.clear()
        generator = torch.Generator().manual_seed(100 * number + rank)
        loss = torch.zeros(())
        for index in torch.randperm(len(model), generator=generator).tolist():
            loss = loss + (model[index] * (rank + 1 + index)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        reducer.finish(weight=1.0)
        results.append((tuple(order), gradients(model)))
    reducer.close()
    group.destroy()
    return results


def twice(link: Link, rank: int, size: int) -> str:
    group = link.form(rank, size)
    model = net()
    reducer = Reducer(model, group, plain(1 << 20), Meter())
    model(data(rank)).sum().backward()
    try:
        model(data(rank)).sum().backward()
    except RuntimeError as error:
        return str(error)
    finally:
        reducer.close()
        group.destroy()
    return "accepted"


def check_agreement(link: Link, rank: int, size: int, rounds: list[int], values: list[float]) -> str:
    group = link.form(rank, size)
    try:
        agree(group, rounds[rank], state_digest({"w": torch.tensor([values[rank]])}))
    except Disagreement as error:
        return str(error)
    finally:
        group.destroy()
    return "agreed"


def train(link: Link, rank: int, size: int, steps: int) -> str:
    """A few steps of a real model on real text; the digest of its final state."""
    from ringtrain.contract.trainer_config import DataConfig, ModelConfig, TrainerConfig
    from ringtrain.data import Batches, load_corpus
    from ringtrain.models import build_model

    model_config = ModelConfig(kind="encoder", size="nano", context_length=16, dropout=0.1)
    config = TrainerConfig(rounds=steps, model=model_config, data=DataConfig(paths=("{stdlib}/this.py",)))
    corpus = load_corpus(config.data)
    model = build_model(config.model, corpus.vocabulary, seed=0)
    torch.manual_seed(1 + rank)  # Dropout differs by rank.
    group = link.form(rank, size)
    batches = Batches(
        corpus, config.model_copy(update={"batch": config.batch.model_copy(update={"per_rank": 2})}), rank, size
    )
    reducer = Reducer(model, group, plain(20_000), Meter())
    for _ in range(steps):
        loss, tokens = model.loss(batches.next())
        loss.backward()  # type: ignore[no-untyped-call]
        reducer.finish(float(tokens), loss.item())
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=0.1)
        model.zero_grad(set_to_none=True)
    digest = state_digest(model.state_dict())
    agree(group, steps, digest)
    reducer.close()
    group.destroy()
    return digest
