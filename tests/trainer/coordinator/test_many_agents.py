"""A real coordinator, and the links of many agents to it: what is announced reaches all of them."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable

import pytest

from ringtrain.agent.link import Link
from ringtrain.contract.addresses import COORDINATOR_PORT
from ringtrain.contract.messages import Beat, Broken, Down, Enter, Hello, JobReported, Leave, Message, Ready
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport, Progress
from ringtrain_operator.local.loopback import LoopbackBlock
from support.environments import replica_environment

pytestmark = pytest.mark.distributed

AGENTS = 200
PATIENCE = 120.0


class Agent:
    """Of a replica of one rank, which is but messages."""

    def __init__(self, host: str, replica: int) -> None:
        self.rank = replica
        self.entered: list[str] = []
        self.left: list[str] = []
        self.report: JobReport | None = None
        self.link = Link(
            host, COORDINATOR_PORT, None, opening=self._opening, received=self._received, lost=lambda _: None
        )

    def _opening(self) -> list[Message]:
        hello = Hello(job="job", replica=self.rank, epoch=0, ranks=(self.rank,))
        return [hello, Ready(rank=self.rank, after=self.entered[-1] if self.entered else None)]

    def _received(self, message: Down) -> None:
        match message:
            case Enter():
                self.entered.append(message.generation)
            case Leave():
                self.left.append(message.generation)
                self.link.send(Ready(rank=self.rank, after=message.generation))
            case JobReported():
                self.report = message.report


async def until(agents: list[Agent], condition: Callable[[Agent], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not all(map(condition, agents)):
            await asyncio.sleep(0.05)


async def all_hear_of_every_generation(host: str) -> None:
    agents = [Agent(host, replica) for replica in range(AGENTS)]
    links = [asyncio.create_task(agent.link.run()) for agent in agents]
    await until(agents, lambda agent: agent.entered == ["0.0"])
    for agent in reversed(agents):
        progress = Progress(round=agent.rank, total_rounds=1000)
        agent.link.send(Beat(rank=agent.rank, phase=Phase.TRAINING, generation="0.0", progress=progress))
    await until(agents, lambda agent: agent.report and agent.report.progress == Progress(round=0, total_rounds=1000))
    agents[17].link.send(Broken(rank=17, generation="0.0", reason="a peer is gone"))
    await until(agents, lambda agent: agent.entered == ["0.0", "0.1"])
    # A machine is lost, and comes back.
    links[42].cancel()
    await asyncio.wait([links[42]])
    others = [agent for agent in agents if agent.rank != 42]
    await until(others, lambda agent: agent.left == ["0.0", "0.1"])
    await until(others, lambda agent: agent.report and agent.report.absent_replicas == (42,))
    links[42] = asyncio.create_task(agents[42].link.run())
    await until(agents, lambda agent: agent.entered == ["0.0", "0.1", "0.2"])
    for link in links:
        link.cancel()
    await asyncio.wait(links)


def test_all_hear_of_every_generation() -> None:
    block = LoopbackBlock(random.Random())
    environment = replica_environment(replicas=AGENTS, addresses=block.addresses)
    command = [sys.executable, "-m", "ringtrain.coordinator"]
    coordinator = subprocess.Popen(command, env={**os.environ, **environment.to_env()})
    try:
        asyncio.run(all_hear_of_every_generation(block.addresses.of(0)))
    finally:
        coordinator.kill()
        coordinator.wait()
        block.close()
