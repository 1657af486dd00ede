"""What a replica's exit code says. Ranks and agents exit with these; the operator's failure rules read them.

The numbers avoid 1 and 2 (any crash of an interpreter), and 126 and above (shells and signals). A rank that died of a
signal gives 128 + signal, as in a shell.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    """All rounds of the whole job are trained and the last checkpoint is committed."""
    USER_ERROR = 70
    """The training code raised an exception. Restarted within the budget: it may have been the data or the disk."""
    BAD_CONFIGURATION = 78
    """The configuration can never work (unknown model, no such file, no GPU). Never restarted."""
    PREEMPTED = 80
    """Asked to stop by SIGTERM while healthy. Not counted against the budget."""
    LOST_PEER = 81
    """A peer or the coordinator did not come back in time."""
    HANG = 82
    """Stopped by its liveness probe: a rank's heartbeat was older than its phase allows."""
    OUT_OF_MEMORY = 83
    """The machine's or the GPU's memory was exhausted."""
    STALE = 84
    """The coordinator knows a newer pod of the same replica: this one must not go on."""
    ENDED_WITH_PEER = 85
    """A peer was lost, and this process's communication (MPI) cannot go on without it. Not counted: the peer is."""
    UNFIT = 86
    """The pre-flight check found the rank's machine wrong, too slow or hanging. Its node is excluded for the job."""


NEVER_RESTARTED = frozenset({ExitCode.BAD_CONFIGURATION})
NOT_COUNTED = frozenset({ExitCode.PREEMPTED, ExitCode.STALE, ExitCode.ENDED_WITH_PEER})


def reason(code: int) -> str:
    """The CamelCase reason under which an exit code appears in status and events."""
    try:
        return "".join(word.capitalize() for word in ExitCode(code).name.split("_"))
    except ValueError:
        return f"Signal{code - 128}" if 128 < code < 160 else "Crashed"
