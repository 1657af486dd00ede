"""What training code is given in each generation."""

from dataclasses import dataclass, field
from typing import Any

import torch

from ringtrain.comm.group import Group
from ringtrain.contract.environment import ReplicaEnvironment
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import Progress
from ringtrain.runtime import faults
from ringtrain.runtime.session import Session


@dataclass(slots=True, kw_only=True)
class Context:
    """One generation, as one rank sees it. All of it but `state` is of this generation only: keep none of it."""

    session: Session
    group: Group
    generation: Generation
    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    environment: ReplicaEnvironment
    state: dict[str, Any] = field(default_factory=dict)
    """Yours; survives from one generation to the next in the same process. Must not hold the group."""
    round: int | None = None
    """The round that was started last; None before the first of this generation."""

    def round_started(self, round: int) -> None:
        """Says that training of `round` begins (the first is 1): a heartbeat, and where injected faults happen.

        Raises Interrupted or Preempted, like `beat`.
        """
        self.beat(Phase.COMPILING if self.round is None else Phase.TRAINING)
        self.round = round
        fault = faults.due(self.environment.faults, rank=self.rank, round=round, epoch=self.generation.epoch)
        if fault is not None:
            faults.commit(fault)

    def beat(self, phase: Phase = Phase.TRAINING, progress: Progress | None = None) -> None:
        """A heartbeat: call it at least as often as the phase's time-out asks. Raises Interrupted or Preempted, which
        are for `ringtrain.run` to catch."""
        self.session.beat(phase, progress)
