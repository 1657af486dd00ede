"""What the coordinator costs, and how quickly it is heard: by simulated agents, over real connections.

    python bench/coordinator.py --quick
    python bench/coordinator.py --agents 1000 --ranks 1

The coordinator is the real one, a process with its store. Agents speak to it by the agents' own code; their ranks are
but messages. All of them are one process of this machine: what it takes to read their messages is part of the times.
docs/recovery.md says more.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from coordinator_agents import JOB, Agent
from ringtrain.contract.addresses import Addresses
from ringtrain.contract.environment import ReplicaEnvironment

_SECONDS = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Simulation:
    def __init__(self, agents: int, ranks: int) -> None:
        self._addresses = Addresses("loopback", f"127.{random.randrange(2, 255)}")
        self._environment = ReplicaEnvironment(
            job=JOB,
            namespace="default",
            replica=0,
            replicas=agents,
            procs_per_replica=ranks,
            epoch=0,
            addresses=self._addresses,
            device="cpu",
        )
        self._agents = [
            Agent(self._addresses, replica, range(replica * ranks, (replica + 1) * ranks)) for replica in range(agents)
        ]

    async def run(self, trials: int, seconds: float) -> None:
        """Prints a table."""
        environment = {**os.environ, **self._environment.to_env()}
        coordinator = subprocess.Popen(
            [sys.executable, "-m", "ringtrain.coordinator"], env=environment, stderr=subprocess.DEVNULL
        )
        try:
            tasks = [asyncio.create_task(agent.run()) for agent in self._agents]
            await self._until(lambda agent: bool(agent.entered[0]))
            left, entered = [], []
            for _ in range(trials):
                left.append(await self._leave())
                entered.append(await self._enter())
            share, load = await _cpu(coordinator.pid, seconds)
            memory = _memory(coordinator.pid)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        finally:
            coordinator.kill()
            coordinator.wait()
        count, ranks = len(self._agents), self._environment.world_size
        print(
            "| agents | ranks | all have left, s | all have entered, s | its CPU, of a core | its memory, MB | load |"
        )
        print("|---|---|---|---|---|---|---|")
        print(
            f"| {count} | {ranks} | {_spread(left)} | {_spread(entered)} | {100 * share:.0f} % | {memory / 1e6:.0f} "
            f"| {load:.1f} |"
        )

    async def _leave(self) -> float:
        """From the word of a rank whose collective failed until the last agent hears that the generation is over."""
        generation = self._agents[0].entered[0]
        begin = time.monotonic()
        random.choice(self._agents).break_generation()
        await self._until(lambda agent: agent.left[0] == generation)
        return max(agent.left[1] for agent in self._agents) - begin

    async def _enter(self) -> float:
        """From the first rank that asks for a generation, of all, until the last agent hears of it."""
        before = self._agents[0].entered[0]
        begin = time.monotonic()
        for agent in self._agents:
            agent.ask()
        await self._until(lambda agent: agent.entered[0] != before)
        return max(agent.entered[1] for agent in self._agents) - begin

    async def _until(self, condition: Callable[[Agent], bool]) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(_SECONDS):
            while not all(map(condition, self._agents)):
                await asyncio.sleep(0.01)


async def _cpu(pid: int, seconds: float) -> tuple[float, float]:
    """(share of a core that the process uses in so many seconds, load average)"""
    before, begin = _used(pid), time.monotonic()
    await asyncio.sleep(seconds)
    return (_used(pid) - before) / (time.monotonic() - begin), os.getloadavg()[0]


def _used(pid: int) -> float:
    """CPU seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(pid: int) -> int:
    """Bytes that were resident at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} .. {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000, help="replicas (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=1, help="of each replica (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=10, help="generations that end (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    args = parser.parse_args()
    trials, seconds = (2, 2.0) if args.quick else (args.trials, 20.0)
    asyncio.run(Simulation(100 if args.quick else args.agents, args.ranks).run(trials, seconds))


if __name__ == "__main__":
    main()
