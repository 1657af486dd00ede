"""Which ranks are started again in their pod, and how often: pure."""

import signal
from dataclasses import dataclass, replace

from ringtrain.contract.exit_codes import ExitCode

_NEVER = frozenset(
    {
        ExitCode.DONE,
        ExitCode.USER_ERROR,
        ExitCode.BAD_CONFIGURATION,
        ExitCode.PREEMPTED,
        ExitCode.LOST_PEER,
        ExitCode.STALE,
        ExitCode.ENDED_WITH_PEER,
        ExitCode.UNFIT,
    }
)
"""What the same code would do again, and what is not the rank's own end."""
_ASKED_TO_END = frozenset({128 + signal.SIGTERM, 128 + signal.SIGINT})


@dataclass(frozen=True, slots=True)
class InPlace:
    """The in-place restarts of one rank."""

    limit: int
    """In a row, without a round finished in between; then the pod is to be replaced."""
    in_a_row: int = 0
    total: int = 0
    start: int | None = None
    """The round that the process began with; None before it said so."""
    got_on: bool = False
    """It has finished a round."""

    def reached(self, round: int) -> "InPlace":
        """After the process told how many rounds are finished."""
        if self.start is None:
            return replace(self, start=round)
        return replace(self, got_on=self.got_on or round > self.start)

    def may_follow(self, exit_code: int) -> bool:
        """Whether a process that ended so is followed by another one."""
        if exit_code in _NEVER or exit_code in _ASKED_TO_END:
            return False
        return (0 if self.got_on else self.in_a_row) < self.limit

    def restarted(self) -> "InPlace":
        return InPlace(self.limit, 1 if self.got_on else self.in_a_row + 1, self.total + 1)
