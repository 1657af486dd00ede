"""What is given to a checkpoint, one process."""

from typing import Any

import pytest
import torch
from torch import nn

from ringtrain.api.saved import Misfit, Part, Saved
from ringtrain.checkpoint.outline import outline
from ringtrain.checkpoint.tree import Unread, flatten, unflatten


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: Any) -> None:
        self.count = state["count"]


class Stages(Part):
    """Some of the layers of a model of three."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        whole = [nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)]
        self.whole = outline(
            {f"{n}.{path}": t for n, each in enumerate(whole) for path, t in each.state_dict().items()}
        )
        for number in numbers:
            self.add_module(str(number), whole[number])


def trained(model: nn.Module) -> dict[str, Any]:
    """(the objects, after a step)"""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for parameter in model.parameters():
        parameter.grad = torch.rand_like(parameter)
    optimizer.step()
    scheduler.step()
    counter = Counter()
    counter.count = 7
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "counter": counter}


def through(tree: Any) -> Any:
    """As a checkpoint holds it."""
    tensors, structure = flatten(tree)
    return unflatten(tensors, structure)


def test_everything_comes_back() -> None:
    first = Saved(trained(nn.Linear(2, 3)))
    objects = trained(nn.Linear(2, 3))
    objects["counter"].count = 0
    second = Saved(objects)
    second.load(through(first.tree()))
    (tensors, structure), (others, other) = flatten(first.tree()), flatten(second.tree())
    assert structure == other
    assert all(torch.equal(tensor, others[path]) for path, tensor in tensors.items())  # type: ignore[arg-type]
    assert objects["counter"].count == 7
    assert objects["optimizer"].param_groups[0]["lr"] == pytest.approx(0.01)


def test_a_part_takes_what_is_its_own_of_parts_cut_elsewhere() -> None:
    parts = [Saved(trained(Stages(0, 1))), Saved(trained(Stages(2)))]
    merged = through(parts[0].tree())
    for other in [through(parts[1].tree())]:
        merged["model"] |= other["model"]
        merged["optimizer"]["state"] |= other["optimizer"]["state"]
    objects = trained(Stages(1, 2))
    saved = Saved(objects)
    tensors, structure = flatten(merged)
    read = {
        path: tensor if saved.wanted(path) else Unread(tuple(tensor.shape), tensor.dtype)  # type: ignore[union-attr]
        for path, tensor in tensors.items()
    }
    assert [path for path, leaf in read.items() if isinstance(leaf, Unread)] == [
        "model/0.weight",
        "model/0.bias",
        *(f"optimizer/state/model.0.weight/{key}" for key in ("step", "exp_avg", "exp_avg_sq")),
        *(f"optimizer/state/model.0.bias/{key}" for key in ("step", "exp_avg", "exp_avg_sq")),
    ]
    saved.load(unflatten(read, structure))
    model, moments = objects["model"], objects["optimizer"].state
    assert torch.equal(model.get_parameter("2.weight"), merged["model"]["2.weight"])
    moment = moments[model.get_parameter("1.bias")]["exp_avg"]
    assert torch.equal(moment, merged["optimizer"]["state"]["model.1.bias"]["exp_avg"])


def test_buffers_are_told_from_parameters() -> None:
    saved = Saved({"net": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))})
    assert list(saved.buffers()) == ["net.1.running_mean", "net.1.running_var", "net.1.num_batches_tracked"]
    assert list(saved.model())[:2] == ["net.0.weight", "net.0.bias"]


def test_another_model_is_named_by_its_first_tensor() -> None:
    tree = through(Saved({"model": Stages(0, 1, 2)}).tree())
    tree["model"]["1.bias"] = torch.zeros(4)
    with pytest.raises(Misfit, match=r"its tensor model.1.bias is float32 \(4,\), but the model's is float32 \(3,\)"):
        Saved({"model": Stages(2)}).load(tree)


def test_what_does_not_fit_is_named() -> None:
    tree = through(Saved(trained(nn.Linear(2, 3))).tree())
    with pytest.raises(Misfit, match="it has no other, but model, optimizer, scheduler, counter"):
        Saved({"other": Counter()}).load(tree)
    with pytest.raises(Misfit, match="its counter does not fit: 'count'"):
        Saved({"counter": Counter()}).load({"counter": {}})
    model = nn.Linear(2, 3)
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias]}]
    split = torch.optim.SGD(groups)
    with pytest.raises(Misfit, match="its optimizer does not fit: it has 1 parameter groups, but the optimizer has 2"):
        Saved({"model": model, "optimizer": split}).load(tree)


def test_an_optimizer_that_gets_other_groups_later_is_refused() -> None:
    model = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    optimizer = torch.optim.SGD(model[0].parameters())
    saved = Saved({"model": model, "optimizer": optimizer})
    saved.tree()
    optimizer.add_param_group({"params": model[1].parameters()})
    with pytest.raises(Misfit, match="optimizer has other parameter groups than when it was given: give it all of"):
        saved.tree()
