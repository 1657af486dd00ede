"""Agents of a simulated job: the real link to the coordinator, and ranks that are but messages."""

import asyncio
import time

from ringtrain.agent.beats import INTERVAL
from ringtrain.agent.link import Link
from ringtrain.contract.addresses import COORDINATOR_PORT, Addresses
from ringtrain.contract.messages import Beat, Broken, Down, Enter, Hello, Leave, Message, Ready
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CheckpointTotals, CommunicationTotals, LinkTotals, Progress

JOB = "simulated"
_LINK = LinkTotals(raw_bytes=10**12, sent_bytes=10**11, codec_seconds=123.456789, wire_seconds=234.567891)
PROGRESS = Progress(
    round=1000,
    total_rounds=100_000,
    loss=2.3456789012345,
    gradient_norm=0.98765432109876,
    tokens_per_second=123456.78901234,
    flops_per_second=1.2345678901234e15,
    communication_share=0.0123456789,
    communication=CommunicationTotals(
        codec="zfp-4", rounds=1000, round_seconds=1234.5678, communication_seconds=345.6789,
        exposed_seconds=12.345678, intra=_LINK, inter=_LINK,
    ),
    checkpoints=CheckpointTotals(committed=200, snapshots=1000, snapshot_seconds=1.23456, write_seconds=234.5678),
)  # fmt: skip
"""As much as a rank tells after each round."""


class Agent:
    """Of one replica with some ranks, which ask for a generation, beat in it once a second, and leave it."""

    def __init__(self, addresses: Addresses, replica: int, ranks: range) -> None:
        self.replica = replica
        self.entered: tuple[str, float] = ("", 0.0)
        """The generation that was entered last, and when it was heard of, by time.monotonic."""
        self.left: tuple[str, float] = ("", 0.0)
        self._ranks = tuple(ranks)
        self._link = Link(
            addresses.of(0),
            COORDINATOR_PORT,
            None,
            opening=self._opening,
            received=self._received,
            lost=lambda _: None,
        )

    async def run(self) -> None:
        """Until it is cancelled: the connection is closed then."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._link.run())
            tasks.create_task(self._beat())

    def break_generation(self) -> None:
        """As if a collective had failed at the first rank."""
        self._link.send(Broken(rank=self._ranks[0], generation=self.entered[0], reason="simulated"))

    def ask(self) -> None:
        """For the next generation, as ranks do that have left theirs."""
        for rank in self._ranks:
            self._link.send(Ready(rank=rank, after=self.left[0] or None))

    def _opening(self) -> list[Message]:
        hello = Hello(job=JOB, replica=self.replica, epoch=0, ranks=self._ranks)
        return [hello, *(Ready(rank=rank) for rank in self._ranks)]

    def _received(self, message: Down) -> None:
        match message:
            case Enter():
                self.entered = (message.generation, time.monotonic())
            case Leave():
                self.left = (message.generation, time.monotonic())

    async def _beat(self) -> None:
        # Agents are not in step.
        await asyncio.sleep(self.replica * 0.618034 % 1 * INTERVAL)
        while True:
            if self.entered[0] != self.left[0]:
                for rank in self._ranks:
                    beat = Beat(rank=rank, phase=Phase.TRAINING, generation=self.entered[0], progress=PROGRESS)
                    self._link.send(beat)
            await asyncio.sleep(INTERVAL)
