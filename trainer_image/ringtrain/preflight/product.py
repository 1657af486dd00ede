"""A product of matrices whose result is known exactly."""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from ringtrain.comm.polling import Poll

_SIDES = {"cpu": 1024, "cuda": 4096}
_LEAST_TIMES = 3
_LEAST_SECONDS = 0.2

Interfere = Callable[[Tensor], None]
"""Called with each product, as a part of it: where faults are injected."""


def seconds_of_product(device: torch.device, poll: Poll, interfere: Interfere) -> float | None:
    """The best of several: what the machine can do, whatever else ran on it meanwhile. None as soon as one is wrong."""
    left, right, known = factors(_SIDES[device.type], device)
    times: list[float] = []
    # The first one also pays for starting libraries.
    _multiplied(left, right, interfere)
    while len(times) < _LEAST_TIMES or sum(times) < _LEAST_SECONDS:
        poll()
        started = time.perf_counter()
        product = _multiplied(left, right, interfere)
        times.append(time.perf_counter() - started)
        if not torch.equal(product, known):
            return None
    return min(times)


def factors(side: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """(left, right, their product), each float32 of (side, side).

    Small whole numbers in a pattern: every sum of products is exact in any order, and with the fewer bits in which a
    GPU may multiply. The rows of one factor repeat every 7, the columns of the other every 5, and so does the product,
    which is made of one such tile in whole numbers.
    """
    index = torch.arange(side)
    rows = (index[:7, None] + index) % 7 - 3
    columns = (2 * index[:, None] + 3 * index[:5]) % 5 - 2
    tile = rows @ columns
    return (
        rows[index % 7].to(device, torch.float32),
        columns[:, index % 5].to(device, torch.float32),
        tile[index % 7][:, index % 5].to(device, torch.float32),
    )


def _multiplied(left: Tensor, right: Tensor, interfere: Interfere) -> Tensor:
    product = left @ right
    interfere(product)
    if product.is_cuda:
        torch.cuda.synchronize(product.device)
    return product
