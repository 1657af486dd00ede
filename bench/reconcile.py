"""What the operator costs, and how fast it is, on a real API server: beside a bare client that makes the same writes.

    python bench/reconcile.py --quick
    python bench/reconcile.py --json results.json

As root, on the cluster that KUBECONFIG names, in a namespace of its own, which no other operator may look at. No
kubelet runs the pods: their statuses are patched, and their agents answered for, by this process.
docs/scale.md says what the columns mean.
"""

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from reconcile_api import namespace, until
from reconcile_fleet import Fleet
from reconcile_results import SUBJECTS, Trial, load, save, table
from reconcile_subject import Subject
from ringtrain_operator.cluster.api import KubernetesApi


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    jobs: int
    replicas: int
    failed: int
    """Pods that end at once, each of another job while there are jobs."""
    noisy: bool = False
    """The pods of one more job end again and again meanwhile."""
    running_seconds: float = 60.0

    def scaled(self, scale: float) -> "Scenario":
        if self.jobs == 1:
            return replace(self, replicas=round(self.replicas * scale), failed=round(self.failed * scale))
        jobs = round(self.jobs * scale)
        return replace(self, jobs=jobs, failed=min(self.failed, jobs))


FULL = (
    Scenario("many jobs", 1000, 8, 100),
    Scenario("beside a noisy job", 200, 8, 100, noisy=True),
    Scenario("one large job", 1, 2000, 200),
)
QUICK = (Scenario("many jobs", 10, 4, 4, running_seconds=5),)


async def measure(scenario: Scenario, who: str) -> Trial:
    async with KubernetesApi.connect() as api, namespace(api) as name:
        fleet = Fleet(api, name)
        async with fleet.watching(), Subject(who, name) as subject:
            return await _phases(scenario, fleet, subject)


async def _phases(scenario: Scenario, fleet: Fleet, subject: Subject) -> Trial:
    await until(subject.is_ready, f"the {subject.who} is ready")
    idle = subject.usage()
    began = time.monotonic()
    await fleet.create(scenario.jobs, scenario.replicas)
    await fleet.all_in("Running")
    start_seconds = time.monotonic() - began
    started = subject.usage()

    # What is still on its way is not of running.
    await asyncio.sleep(3)
    polls, before = fleet.polls, subject.usage()
    await asyncio.sleep(scenario.running_seconds)
    running, polls = subject.usage(), fleet.polls - polls

    noise = await fleet.noisy(scenario.replicas) if scenario.noisy else None
    failed = await fleet.fail(scenario.failed)
    await fleet.replaced(failed)
    if noise is not None:
        await noise.stop()
    await fleet.all_in("Running")
    await asyncio.sleep(3)
    recovered = subject.usage()
    await fleet.finish()
    await fleet.all_in("Succeeded")
    await asyncio.sleep(3)
    end = subject.usage()
    calm = scenario.running_seconds
    return Trial(
        subject=subject.who,
        scenario=scenario.name,
        jobs=scenario.jobs,
        replicas=scenario.replicas,
        failed=scenario.failed,
        start_seconds=start_seconds,
        reactions=fleet.reactions(failed),
        finishes=fleet.finishes(),
        clean_requests=(before.requests - idle.requests + end.requests - recovered.requests) / scenario.jobs,
        running_writes=(running.requests - before.requests) / scenario.jobs / calm * 10,
        polls=polls / scenario.jobs / calm,
        start_cpu=started.cpu - idle.cpu,
        running_cpu=(running.cpu - before.cpu) / calm,
        peak_bytes=end.peak_bytes,
    )


def trials(scenarios: tuple[Scenario, ...], done: list[Trial]) -> Iterator[tuple[Scenario, str]]:
    """Those that are not `done` yet."""
    known = {(trial.scenario, trial.subject) for trial in done}
    for scenario in scenarios:
        for who in SUBJECTS:
            if (scenario.name, who) not in known:
                yield scenario, who


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute: proves that it runs, decides nothing")
    parser.add_argument("--scale", type=float, default=1.0, help="of the jobs, or of a single job's pods")
    parser.add_argument("--only", help="the scenario of that name")
    parser.add_argument("--json", type=Path, help="kept after every row, and added to")
    args = parser.parse_args()
    found = load(args.json)
    scenarios = tuple(
        each.scaled(args.scale) for each in (QUICK if args.quick else FULL) if args.only in (None, each.name)
    )
    # As by Ctrl-C: the namespace is cleared.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    for scenario, who in trials(scenarios, found):
        found.append(asyncio.run(measure(scenario, who)))
        save(args.json, found)
    print(table(found))


if __name__ == "__main__":
    main()
