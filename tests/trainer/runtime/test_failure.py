import pytest
import torch
import torch.distributed as dist

from ringtrain.comm.errors import PeerLost
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import PhaseTimeouts
from ringtrain.data.errors import DataError
from ringtrain.runtime import failure
from ringtrain.runtime.errors import BadConfiguration, EndedWithPeer, InjectedFault, PeersUnreachable, Preempted, Unfit


def _invalid() -> Exception:
    try:
        PhaseTimeouts(training=-1)
    except ValueError as error:
        return error
    raise AssertionError("a negative time-out was accepted")


def _too_large() -> RuntimeError:
    """What torch raises when the machine has too little memory."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    return raised.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Preempted("SIGTERM"), ExitCode.PREEMPTED),
        (PeersUnreachable("10 generations"), ExitCode.LOST_PEER),
        (EndedWithPeer("replica 1 is lost"), ExitCode.ENDED_WITH_PEER),
        (Unfit("unfit: its matrix product is wrong"), ExitCode.UNFIT),
        (torch.OutOfMemoryError("CUDA out of memory"), ExitCode.OUT_OF_MEMORY),
        (MemoryError(), ExitCode.OUT_OF_MEMORY),
        (_too_large(), ExitCode.OUT_OF_MEMORY),
        (BadConfiguration("no such field"), ExitCode.BAD_CONFIGURATION),
        (DataError("no such file"), ExitCode.BAD_CONFIGURATION),
        (_invalid(), ExitCode.BAD_CONFIGURATION),
        (InjectedFault("raise"), ExitCode.USER_ERROR),
        (RuntimeError("any"), ExitCode.USER_ERROR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error: Exception, code: ExitCode) -> None:
    assert failure.exit_code(error) is code


def test_a_programming_error_is_told_with_its_place() -> None:
    try:
        [][1]
    except IndexError as error:
        told = failure.message(error)
    assert told.startswith("IndexError: list index out of range (")
    assert __file__ in told


def test_what_was_written_for_the_user_is_told_as_it_is() -> None:
    assert failure.message(BadConfiguration("set spec.trainer.rounds")) == "set spec.trainer.rounds"


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (PeerLost("gone"), True),
        (dist.DistNetworkError("refused"), True),
        (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("shape mismatch"), False),
    ],
)
def test_failed_collectives_are_told_from_other_errors(error: RuntimeError, lost: bool) -> None:
    assert failure.is_peer_loss(error) is lost
