"""From the rounds that a job finished, before and after a fault, to what the fault cost: pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from recovery_results import RANKS


@dataclass(frozen=True, slots=True)
class Finished:
    """A round that was finished."""

    at: float
    """By time.time."""
    round: int
    size: int
    """Ranks that took part."""
    members: str
    """Differs when the group of ranks, or one of their processes, is another one."""


@dataclass(frozen=True, slots=True)
class Cost:
    any_at: float | None
    full_at: float | None
    lost: int


def cost(finished: Sequence[Finished], fault_at: float) -> Cost:
    """A round that was under way at the fault and that the same members still finish is none after the fault."""
    before = [each for each in finished if each.at <= fault_at]
    members = before[-1].members
    after = [each for each in finished if each.at > fault_at and each.members != members]
    whole = [each for each in after if each.size == RANKS]
    old = {each.round for each in finished if each.members == members}
    return Cost(
        any_at=min((each.at for each in after), default=None),
        full_at=min((each.at for each in whole), default=None),
        lost=len(old & {each.round for each in after}),
    )


def round_seconds(finished: Sequence[Finished], until: float, count: int = 10) -> float:
    """Median of the last `count` rounds before `until`."""
    by_round = {each.round: each.at for each in finished if each.at <= until}
    times = [by_round[round] for round in sorted(by_round)][-count - 1 :]
    return statistics.median(later - earlier for earlier, later in pairwise(times))
