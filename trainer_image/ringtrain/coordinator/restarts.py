"""Ranks that were started again in their pods: the operator counts them like pods that were replaced."""

from dataclasses import replace
from datetime import datetime

from ringtrain.contract.messages import Restarted
from ringtrain.contract.report import RankFailure
from ringtrain.coordinator.state import State

_KEPT = 20


def is_known(state: State, replica: int, message: Restarted) -> bool:
    """An agent tells every coordinator, and one that it meets again, of all its latest."""
    pod = (replica, state.members[replica].epoch)
    return any((known.replica, known.epoch) == pod and known.number >= message.number for known in state.rank_failures)


def restarted(state: State, replica: int, message: Restarted, now: datetime) -> State:
    """The rank's process is another one, which has said nothing yet."""
    rank = {message.rank}
    epoch = state.members[replica].epoch
    failure = RankFailure(
        time=now,
        replica=replica,
        epoch=epoch,
        number=message.number,
        rank=message.rank,
        exit_code=message.exit_code,
        message=message.message,
        round=message.round,
        generation=message.generation,
    )
    # The operator counts pods that are gone as a whole.
    others = [known for known in state.rank_failures if known.replica != replica or known.epoch == epoch]
    return replace(
        state,
        ready=state.ready - rank,
        done=state.done - rank,
        beats={other: beat for other, beat in state.beats.items() if other != message.rank},
        rank_failures=(*others, failure)[-_KEPT:],
    )
