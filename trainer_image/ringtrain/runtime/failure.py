"""Which exit code an exception of the training code stands for, and how it is told to the user."""

import traceback

import torch
import torch.distributed as dist
from pydantic import ValidationError

from ringtrain.comm.errors import PeerLost
from ringtrain.contract.environment import BadEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.data.errors import DataError
from ringtrain.runtime.errors import BadConfiguration, EndedWithPeer, PeersUnreachable, Preempted, Unfit

_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (Preempted, ExitCode.PREEMPTED),
    (PeersUnreachable, ExitCode.LOST_PEER),
    (EndedWithPeer, ExitCode.ENDED_WITH_PEER),
    (Unfit, ExitCode.UNFIT),
    (torch.OutOfMemoryError, ExitCode.OUT_OF_MEMORY),
    (MemoryError, ExitCode.OUT_OF_MEMORY),
    (BadConfiguration, ExitCode.BAD_CONFIGURATION),
    (BadEnvironment, ExitCode.BAD_CONFIGURATION),
    (DataError, ExitCode.BAD_CONFIGURATION),
    (ValidationError, ExitCode.BAD_CONFIGURATION),
)
_GLOO = "gloo/transport"
_CPU_MEMORY = "DefaultCPUAllocator: can't allocate memory"
"""How torch, which has an exception for GPUs' memory only, words a lack of the machine's."""
_SPEAK_FOR_THEMSELVES = (Preempted, PeersUnreachable, EndedWithPeer, Unfit, BadConfiguration, BadEnvironment, DataError)


def exit_code(error: Exception) -> ExitCode:
    """USER_ERROR unless the exception says more."""
    if _CPU_MEMORY in str(error):
        return ExitCode.OUT_OF_MEMORY
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.USER_ERROR)


def is_peer_loss(error: RuntimeError) -> bool:
    """Whether a collective failed, ours or one that training code started by torch.distributed itself."""
    return isinstance(error, PeerLost | dist.DistError) or _GLOO in str(error)


def message(error: Exception) -> str:
    """The exception in one line: its text, with type and place unless it was written for the user."""
    if isinstance(error, _SPEAK_FOR_THEMSELVES):
        return str(error)
    text = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({frames[-1].filename}:{frames[-1].lineno})" if frames else text
