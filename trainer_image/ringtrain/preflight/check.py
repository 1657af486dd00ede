"""The check as ranks do it together: at the beginning of a generation, where any of them was not checked before."""

import torch
from torch import Tensor

from ringtrain.comm.errors import PeerLost
from ringtrain.comm.group import Group
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.preflight.exchange import seconds_of_exchange
from ringtrain.preflight.pairs import peers
from ringtrain.preflight.product import Interfere, seconds_of_product
from ringtrain.preflight.verdict import Measured, judge, told
from ringtrain.runtime import faults
from ringtrain.runtime.errors import Unfit
from ringtrain.runtime.output import say
from ringtrain.runtime.session import Session


class Check:
    """Of one rank's process. What it once multiplied it does not multiply again: its GPU's memory may be full."""

    def __init__(self, session: Session, device: torch.device) -> None:
        self._settings = session.environment.preflight
        self._passed = session.environment.checked
        self._session = session
        self._device = device
        self._product: float | None = None

    def run(self, group: Group, generation: Generation) -> None:
        """All ranks call it in every generation, before anything else; it does something where the job asks for it, and
        one of them has not passed it.

        Raises Unfit when this rank is, PeerLost when another one is, and what heartbeats and collectives raise.
        """
        if self._settings is None or group.every(self._passed):
            return
        self._session.beat(Phase.CHECKING)
        verdict = judge(self._measured(group, generation), self._settings.slower_than)
        if group.rank in verdict.unfit:
            raise Unfit(f"unfit: {verdict.unfit[group.rank]}")
        if verdict.unfit:
            unfit = "; ".join(f"rank {rank} is unfit: {reason}" for rank, reason in verdict.unfit.items())
            raise PeerLost(unfit)
        self._passed = True
        self._session.checked(verdict.fitness[group.rank])
        if group.rank == 0:
            self._session.report("PreflightPassed", told(verdict.fitness), warning=False)
        say(group.rank, f"pre-flight check: {told(verdict.fitness)}")

    def _measured(self, group: Group, generation: Generation) -> list[Measured]:
        """By all ranks."""
        if self._product is None:
            self._product = seconds_of_product(self._device, self._session.poll, self._faulty(generation))
        processes = self._session.environment.procs_per_replica
        limit = self._session.environment.timeouts.checking
        exchanges: list[tuple[int, float | None]] = []
        for peer in peers(group.size, processes, group.rank):
            # So that nobody's time is that of waiting for a peer that is still at something else.
            group.barrier()
            if peer is not None:
                exchanges.append((peer, seconds_of_exchange(group, peer, limit)))
        return [Measured(product, dict(pairs)) for product, pairs in group.all_gather_json([self._product, exchanges])]

    def _faulty(self, generation: Generation) -> Interfere:
        session = self._session
        fault = faults.due(session.environment.faults, rank=session.rank, round=0, epoch=generation.epoch)

        def interfere(product: Tensor) -> None:
            if fault is not None:
                faults.commit_to(product, fault)

        return interfere
