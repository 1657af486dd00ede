"""What the user should know of the job."""

from dataclasses import replace
from datetime import datetime

from ringtrain.contract.report import Notice
from ringtrain.coordinator.state import State

_KEPT = 20


def noticed(state: State, now: datetime, reason: str, message: str, warning: bool = True) -> State:
    """`state` with one more notice; only the latest 20 are kept."""
    notice = Notice(sequence=state.noticed, time=now, reason=reason, message=message, warning=warning)
    return replace(state, notices=(*state.notices, notice)[-_KEPT:], noticed=state.noticed + 1)
