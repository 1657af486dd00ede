import os
import signal
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ringtrain.contract.faults import Fault, FaultKind, parse_fault
from ringtrain.runtime import faults
from ringtrain.runtime.errors import InjectedFault

SMALL = st.integers(0, 3)
FAULTS = st.builds(Fault, st.sampled_from(list(FaultKind)), SMALL, SMALL, SMALL)


@given(st.lists(FAULTS, max_size=5), SMALL, SMALL, SMALL)
def test_a_fault_is_due_at_its_rank_round_and_epoch_only(known: list[Fault], rank: int, round: int, epoch: int) -> None:
    matching = [
        fault
        for fault in known
        if (fault.rank, fault.epoch) == (rank, epoch)
        and (fault.round == round or (fault.kind is FaultKind.SLOW and fault.round < round))
    ]
    assert faults.due(known, rank=rank, round=round, epoch=epoch) == (matching[0] if matching else None)


def test_raise_is_an_exception_that_names_the_fault() -> None:
    with pytest.raises(InjectedFault, match="raise:rank=1,round=2"):
        faults.commit(parse_fault("raise:rank=1,round=2"))


def test_wrong_is_a_product_and_nothing_else() -> None:
    fault = parse_fault("wrong:rank=1,round=0")
    product = torch.zeros(2, 2)
    faults.commit_to(product, fault)
    assert product.count_nonzero() == 1
    with pytest.raises(ValueError, match="only a product"):
        faults.commit(fault)
    with pytest.raises(InjectedFault):
        faults.commit_to(product, parse_fault("raise:rank=1,round=0"))


def _status_of_victim(fault: str) -> int:
    """The wait status of a process that commits `fault`, as soon as it has ended or stopped."""
    program = "from ringtrain.runtime import faults\nfrom ringtrain.contract.faults import parse_fault\n"
    victim = subprocess.Popen([sys.executable, "-c", program + f"faults.commit(parse_fault({fault!r}))"])
    _, status = os.waitpid(victim.pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        victim.kill()
        victim.wait()
    else:
        victim.returncode = os.waitstatus_to_exitcode(status)
    return status


def test_kill() -> None:
    status = _status_of_victim("kill:rank=0,round=0")
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_exit() -> None:
    assert os.waitstatus_to_exitcode(_status_of_victim("exit:rank=0,round=0,code=78")) == 78


def test_stop() -> None:
    status = _status_of_victim("stop:rank=0,round=0")
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGSTOP
