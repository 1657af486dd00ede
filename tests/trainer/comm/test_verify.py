import pytest
import torch
from torch import Tensor

from ringtrain.comm.verify import state_digest
from trainer.comm import bodies
from trainer.comm.ranks import Crew

STATE = {
    "weight": torch.arange(6.0).view(2, 3),
    "moment": torch.ones(3, dtype=torch.bfloat16),
    "step": torch.tensor(4),
    "empty": torch.empty(0, 5),
}


def test_a_digest_does_not_depend_on_order_or_strides() -> None:
    backwards = dict(reversed(STATE.items()))
    backwards["weight"] = STATE["weight"].t().contiguous().t()
    assert not backwards["weight"].is_contiguous()
    assert state_digest(backwards) == state_digest(STATE)


@pytest.mark.parametrize(
    "other",
    [
        STATE | {"weight": STATE["weight"] + torch.tensor([0, 0, 1e-6])},
        STATE | {"weight": STATE["weight"].view(3, 2)},
        STATE | {"step": torch.tensor(4, dtype=torch.int32)},
        STATE | {"more": torch.empty(0)},
        {"Weight" if name == "weight" else name: tensor for name, tensor in STATE.items()},
    ],
)
def test_a_digest_sees_every_difference(other: dict[str, Tensor]) -> None:
    assert state_digest(other) != state_digest(STATE)


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("rounds", "values", "expected"),
    [
        ([7, 7, 7], [1.0, 1.0, 1.0], "agreed"),
        ([7, 9, 8], [1.0, 1.0, 1.0], "the ranks are in rounds 7 to 9"),
        ([7, 7, 7], [1.0, 1.0, 2.0], "the ranks hold different states of round 7"),
    ],
)
def test_agreement(crew: Crew, rounds: list[int], values: list[float], expected: str) -> None:
    results = crew.run(3, bodies.check_agreement, rounds, values)
    assert all(result.startswith(expected) for result in results)
