"""Whatever dies or hangs, at any moment: the job ends with the bits of an undisturbed run."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import PhaseTimeouts
from support.trainer_job import TrainerJob
from trainer.train.test_checkpoints import CONFIG, FED_BACK

pytestmark = pytest.mark.distributed

FAULTS = 12
REPLICAS = 3
TIMEOUTS = PhaseTimeouts(training=5, checkpointing=10, compiling=15, restoring=15, starting=60)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., TrainerJob]]:
    made: list[TrainerJob] = []

    def build(name: str) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        made.append(
            TrainerJob(
                directory,
                checkpoint=CheckpointSettings(directory=str(directory / "volume"), every=3, replicate="Always"),
                in_place_restarts=3,
                trainer=CONFIG,
                replicas=REPLICAS,
                communication=FED_BACK,
                timeouts=TIMEOUTS,
            )
        )
        return made[-1]

    yield build
    for job in made:
        job.close()


class Chaos:
    """Does one thing after another to a job, and stands for its operator: ended pods are replaced, in a new epoch."""

    def __init__(self, job: TrainerJob, seed: int) -> None:
        self.told: list[str] = []
        self._job = job
        self._random = random.Random(seed)
        self._epoch = 0

    def strike(self) -> None:
        replica = self._random.randrange(REPLICAS)
        what = self._random.choice(
            [
                self._kill_rank,
                self._kill_rank,
                self._stop_rank,
                self._kill_pod,
                self._kill_coordinator,
                self._kill_store,
            ]
        )
        what(replica)
        time.sleep(self._random.uniform(0, 1.5))
        self.repair()

    def repair(self) -> None:
        for replica, agent in list(self._job.agents.items()):
            code = agent.poll()
            if code is None or code == ExitCode.DONE:
                continue
            assert code not in (ExitCode.BAD_CONFIGURATION, ExitCode.USER_ERROR), self._job.log(replica)[-2000:]
            self._epoch += 1
            self.told.append(f"replica {replica} ended with {code}: epoch {self._epoch}")
            self._job.start(replica, self._epoch)

    def _kill_rank(self, replica: int) -> None:
        self._signal_rank(replica, signal.SIGKILL)

    def _stop_rank(self, replica: int) -> None:
        self._signal_rank(replica, signal.SIGSTOP)

    def _signal_rank(self, replica: int, number: signal.Signals) -> None:
        status = self._job.status(replica)
        pid = status.ranks[0].pid if status is not None and status.ranks else None
        if pid is not None:
            self._signal(pid, number, f"rank {replica}")

    def _kill_pod(self, replica: int) -> None:
        self.told.append(f"kill pod {replica}")
        if self._job.agents[replica].poll() is None:
            self._job.kill(replica)

    def _kill_coordinator(self, _: int) -> None:
        self._kill_one("ringtrain.coordinator")

    def _kill_store(self, _: int) -> None:
        self._kill_one("ringtrain.runtime.store")

    def _kill_one(self, module: str) -> None:
        # It may be on its way up or down.
        with contextlib.suppress(ValueError):
            self._signal(self._job.pid_of(0, module), signal.SIGKILL, module)

    def _signal(self, pid: int, number: signal.Signals, who: str) -> None:
        self.told.append(f"{number.name} to {who}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.timeout(900)
def test_nothing_that_dies_changes_a_bit(make: Callable[..., TrainerJob]) -> None:
    plain, struck = make("plain"), make("struck")
    plain.start_all()
    plain.finish()

    seed = random.randrange(10**6)
    chaos = Chaos(struck, seed)
    struck.start_all()
    for _ in range(FAULTS):
        before = struck.round(0)
        # A little progress in between, or the three in-place restarts of a rank are soon over.
        struck.until(
            lambda before=before: chaos.repair() or struck.round(0) != before or finished(struck),  # type: ignore[misc,func-returns-value]
            f"progress (seed {seed}): {chaos.told}",
        )
        if finished(struck):
            break
        chaos.strike()
    struck.until(lambda: chaos.repair() or finished(struck), f"the end (seed {seed}): {chaos.told}")  # type: ignore[func-returns-value]
    assert set(struck.digests) == {plain.digest}, f"seed {seed}: {chaos.told}"
    assert struck.losses == plain.losses, f"seed {seed}: {chaos.told}"
    assert struck.processes() == []


def finished(job: TrainerJob) -> bool:
    return all(agent.poll() == ExitCode.DONE for agent in job.agents.values())
