"""Injected faults: which are due, and how each is done."""

import os
import signal
import time
from collections.abc import Sequence

from torch import Tensor

from ringtrain.contract.faults import Fault, FaultKind
from ringtrain.runtime.errors import InjectedFault

_SLOWER_BY = 0.5
"""Seconds, of a round."""
_PRODUCT_SLOWER_BY = 2.0
"""Seconds: too slow by any measure, beside others on a busy machine, too."""


def due(faults: Sequence[Fault], *, rank: int, round: int, epoch: int) -> Fault | None:
    """The first fault of this rank, round and epoch, if any."""
    return next(
        (fault for fault in faults if (fault.rank, fault.epoch) == (rank, epoch) and _is_due(fault, round)), None
    )


def commit(fault: Fault) -> None:
    """Does it to this process."""
    match fault.kind:
        case FaultKind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case FaultKind.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case FaultKind.HANG:
            while True:
                pass
        case FaultKind.EXIT:
            os._exit(fault.code)
        case FaultKind.RAISE:
            raise InjectedFault(f"injected by the fault {fault}")
        case FaultKind.SLOW:
            time.sleep(_SLOWER_BY)
        case FaultKind.WRONG:
            raise ValueError(f"{fault}: only a product can come out wrong")


def commit_to(product: Tensor, fault: Fault) -> None:
    """Does it to `product`, a matrix of the pre-flight check, or to this process while it makes it."""
    match fault.kind:
        case FaultKind.WRONG:
            product[0, 0] += 1
        case FaultKind.SLOW:
            time.sleep(_PRODUCT_SLOWER_BY)
        case _:
            commit(fault)


def _is_due(fault: Fault, round: int) -> bool:
    return round >= fault.round if fault.kind is FaultKind.SLOW else round == fault.round
