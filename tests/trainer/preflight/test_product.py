import pytest
import torch
from torch import Tensor

from ringtrain.preflight.product import factors, seconds_of_product

CPU = torch.device("cpu")


@pytest.mark.parametrize("side", [7, 64, 1024])
def test_the_product_is_known_exactly(side: int) -> None:
    left, right, known = factors(side, CPU)
    assert torch.equal(left.double() @ right.double(), known.double())
    # So that a multiplication in fewer bits is exact, too.
    assert torch.equal(left.bfloat16().float(), left)
    assert known.min() < known.max()


def test_it_is_timed_and_polls() -> None:
    polled: list[int] = []
    seconds = seconds_of_product(CPU, lambda: polled.append(1), lambda _: None)
    assert seconds is not None
    assert seconds > 0
    assert len(polled) >= 3


def test_one_wrong_value_is_found() -> None:
    def flip(product: Tensor) -> None:
        product[1000, 3] += 1

    assert seconds_of_product(CPU, lambda: None, flip) is None
