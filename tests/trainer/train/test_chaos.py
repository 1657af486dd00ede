"""Whatever dies or hangs, at any moment: the job ends as an undisturbed run does; if recovery is exact, bit for bit."""

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ringtrain.contract.environment import CheckpointSettings, Recovery, Replicate
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.phases import PhaseTimeouts
from support.chaos import Chaos
from support.processes import send
from support.trainer_job import TrainerJob
from trainer.train.test_checkpoints import CONFIG, FED_BACK

pytestmark = pytest.mark.distributed

FAULTS = 12
REPLICAS = 3
TIMEOUTS = PhaseTimeouts(training=5, checkpointing=10, compiling=15, restoring=15, starting=60)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., TrainerJob]]:
    made: list[TrainerJob] = []

    def build(name: str, recovery: Recovery, replicate: Replicate) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        made.append(
            TrainerJob(
                directory,
                checkpoint=CheckpointSettings(
                    directory=str(directory / "volume"), every=3, replicate=replicate, recovery=recovery
                ),
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


class JobChaos(Chaos):
    """Stands for the job's operator and its kubelet too: ended pods are replaced, in a new epoch, and a pod whose agent
    does not answer is ended some time."""

    def __init__(self, job: TrainerJob, seed: int) -> None:
        super().__init__(
            seed,
            [
                partial(self._signal_rank, signal.SIGKILL),
                partial(self._signal_rank, signal.SIGKILL),
                partial(self._signal_rank, signal.SIGSTOP),
                self._kill_pod,
                self._stop_agent,
                self._stop_agent,
                partial(self._signal_one, "ringtrain.coordinator", signal.SIGKILL),
                partial(self._signal_one, "ringtrain.coordinator", signal.SIGSTOP),
                partial(self._signal_one, "ringtrain.runtime.store", signal.SIGKILL),
                partial(self._signal_one, "ringtrain.runtime.store", signal.SIGSTOP),
            ],
        )
        self._job = job
        self._epoch = 0
        self._stopped: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        """Agents, by replica, and for how long (monotonic seconds)."""

    def strike(self) -> None:
        super().strike()
        time.sleep(self.random.uniform(0, 1.5))
        self.repair()

    def repair(self) -> None:
        for replica, (agent, until) in list(self._stopped.items()):
            if time.monotonic() >= until:
                del self._stopped[replica]
                self._end_stop(replica, agent)
        for replica, agent in list(self._job.agents.items()):
            code = agent.poll()
            if code is None or code == ExitCode.DONE:
                continue
            assert code not in (ExitCode.BAD_CONFIGURATION, ExitCode.USER_ERROR), self._job.log(replica)[-2000:]
            self._epoch += 1
            self.told.append(f"replica {replica} ended with {code}: epoch {self._epoch}")
            self._job.start(replica, self._epoch)

    def _signal_rank(self, number: signal.Signals) -> None:
        replica = self.random.randrange(REPLICAS)
        status = self._job.status(replica)
        pid = status.ranks[0].pid if status is not None and status.ranks else None
        if pid is not None:
            self._signal(pid, number, f"rank {replica}")

    def _kill_pod(self) -> None:
        replica = self.random.randrange(REPLICAS)
        self.told.append(f"kill pod {replica}")
        if self._job.agents[replica].poll() is None:
            self._job.kill(replica)

    def _stop_agent(self) -> None:
        """For less or more than a coordinator waits for it."""
        replica = self.random.randrange(REPLICAS)
        agent = self._job.agents[replica]
        if agent.poll() is None and replica not in self._stopped:
            self._signal(agent.pid, signal.SIGSTOP, f"the agent of replica {replica}")
            self._stopped[replica] = agent, time.monotonic() + self.random.uniform(0, 10)

    def _end_stop(self, replica: int, agent: subprocess.Popen[bytes]) -> None:
        if agent.poll() is not None:
            return
        if self.random.random() < 0.5:
            self._signal(agent.pid, signal.SIGCONT, f"the agent of replica {replica}")
        else:
            self.told.append(f"the kubelet kills pod {replica}")
            self._job.kill(replica)

    def _signal_one(self, module: str, number: signal.Signals) -> None:
        # It may be on its way up or down.
        with contextlib.suppress(ValueError):
            self._signal(self._job.pid_of(0, module), number, module)

    def _signal(self, pid: int, number: signal.Signals, who: str) -> None:
        self.told.append(f"{number.name} to {who}")
        send(pid, number)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("recovery", "replicate"), [("Exact", "Always"), ("Live", "Auto")])
def test_nothing_that_dies_changes_what_is_learned(
    make: Callable[..., TrainerJob], recovery: Recovery, replicate: Replicate
) -> None:
    plain, struck = make("plain", recovery, replicate), make("struck", recovery, replicate)
    plain.start_all()
    plain.finish()

    chaos = JobChaos(struck, seed=random.randrange(10**6))
    struck.start_all()
    for _ in range(FAULTS):
        before = struck.round(0)
        # A little progress in between, or the three in-place restarts of a rank are soon over.
        struck.until(
            lambda before=before: chaos.repair() or struck.round(0) != before or finished(struck),  # type: ignore[misc,func-returns-value]
            f"progress: {chaos.told}",
        )
        if finished(struck):
            break
        chaos.strike()
    struck.until(lambda: chaos.repair() or finished(struck), f"the end: {chaos.told}")  # type: ignore[func-returns-value]
    assert struck.losses.keys() == plain.losses.keys() == set(range(1, CONFIG.rounds + 1))
    if recovery == "Exact":
        assert set(struck.digests) == {plain.digest}, chaos.told
        assert struck.losses == plain.losses, chaos.told
    assert last_losses(struck) == pytest.approx(last_losses(plain), rel=0.01), chaos.told
    assert len(set(struck.digests)) == 1
    assert struck.processes() == []


def last_losses(job: TrainerJob) -> float:
    """Mean of ten rounds: dropout differs where random generators began anew."""
    return sum(job.losses[round] for round in sorted(job.losses)[-10:]) / 10


def finished(job: TrainerJob) -> bool:
    return all(agent.poll() == ExitCode.DONE for agent in job.agents.values())
