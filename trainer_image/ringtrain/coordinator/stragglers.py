"""Who makes all others wait: a rank whose own work in a round takes longer than that of the ranks with the same work.

All ranks end a round together, so its length says nothing; what of it a rank did not wait for others does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median_low

from ringtrain.contract.report import CommunicationTotals
from ringtrain.coordinator.notices import noticed
from ringtrain.coordinator.state import State

ROUNDS = 20
"""Looked at together, at least: single rounds differ by chance."""
SECONDS = 10.0
"""That they must have taken: on a busy machine, short rounds in a row differ by the same chance."""
EXCESS = 0.25
"""Of the others' work, from which on a rank is a straggler."""
WORTH = 0.05
"""Of the round, that it must cost: where nobody works for long, ratios say nothing."""


@dataclass(frozen=True, slots=True)
class Straggler:
    rank: int
    work: float
    """Seconds of a round."""
    typical: float
    """Of the ranks with the same work."""


@dataclass(frozen=True, slots=True)
class _Work:
    round: float
    """Seconds."""
    own: float
    """Seconds of it in which the rank did not wait."""

    @classmethod
    def between(cls, before: CommunicationTotals, now: CommunicationTotals) -> "_Work":
        rounds = now.rounds - before.rounds
        length = (now.round_seconds - before.round_seconds) / rounds
        return cls(length, length - (now.exposed_seconds - before.exposed_seconds) / rounds)


def stragglers(
    before: Mapping[int, CommunicationTotals], now: Mapping[int, CommunicationTotals], pipeline: int
) -> tuple[Straggler, ...]:
    """By rank, from the totals of all ranks before some rounds and after them. Ranks that have the same place in their
    pipelines do the same work."""
    work = {rank: _Work.between(before[rank], totals) for rank, totals in now.items()}
    places = range(pipeline)
    medians = [median_low(own.own for rank, own in work.items() if rank % pipeline == place) for place in places]
    found = []
    for rank, own in sorted(work.items()):
        typical = medians[rank % pipeline]
        excess = own.own - typical
        if excess > max(EXCESS * typical, WORTH * own.round):
            found.append(Straggler(rank, own.own, typical))
    return tuple(found)


def looked_for(state: State, now: datetime) -> State:
    """`state` after another look at the ranks' beats: who has become a straggler is told, once until it is none."""
    totals = {
        rank: beat.progress.communication
        for rank, beat in state.beats.items()
        if beat.generation == str(state.generation) and beat.progress and beat.progress.communication
    }
    if len(totals) < state.world_size:
        return state
    if not _follow(state.measured, totals):
        return replace(state, measured=totals)
    if not all(_is_long(state.measured[rank], seen) for rank, seen in totals.items()):
        return state
    found = stragglers(state.measured, totals, state.pipeline)
    for one in found:
        if one.rank not in state.stragglers:
            message = (
                f"rank {one.rank} works {one.work:.3g} s of a round, ranks with the same work {one.typical:.3g} s: all "
                f"others wait for it. Look at the node of replica {one.rank // state.procs_per_replica}"
            )
            state = noticed(state, now, "Straggler", message)
    return replace(state, measured=totals, stragglers=frozenset(one.rank for one in found))


def _is_long(before: CommunicationTotals, now: CommunicationTotals) -> bool:
    return now.rounds - before.rounds >= ROUNDS and now.round_seconds - before.round_seconds >= SECONDS


def _follow(before: Mapping[int, CommunicationTotals], now: Mapping[int, CommunicationTotals]) -> bool:
    """Whether totals were only added to: they start over with each generation, and when the codec changes."""
    return before.keys() == now.keys() and all(
        totals.codec == before[rank].codec and totals.rounds >= before[rank].rounds for rank, totals in now.items()
    )
