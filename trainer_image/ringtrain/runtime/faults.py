"""Injected faults: which are due, and how each is done."""

import os
import signal
from collections.abc import Sequence

from ringtrain.contract.faults import Fault, FaultKind
from ringtrain.runtime.errors import InjectedFault


def due(faults: Sequence[Fault], *, rank: int, round: int, epoch: int) -> Fault | None:
    """The first fault of this rank, round and epoch, if any."""
    return next((fault for fault in faults if (fault.rank, fault.round, fault.epoch) == (rank, round, epoch)), None)


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
