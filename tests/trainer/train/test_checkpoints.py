"""Checkpoints of real jobs: killed as a whole at any moment, preempted, on volumes that refuse."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.checkpoint.volume import candidates
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import CheckpointSettings, WarmStart
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, OptimizerConfig, TrainerConfig
from support.loopback_job import terminate
from support.small_volume import SmallVolume, needs_root
from support.trainer_job import TrainerJob

pytestmark = pytest.mark.distributed

KILLS = 20
CONFIG = TrainerConfig(
    rounds=60,
    seed=1,
    model=ModelConfig(size="nano", context_length=32, dropout=0.1),
    data=DataConfig(paths=("{stdlib}/json/*.py", "{stdlib}/email/*.py")),
    batch=BatchConfig(per_rank=4, accumulation=2),
    optimizer=OptimizerConfig(warmup_rounds=3, learning_rate=3e-3),
)
FED_BACK = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=3, verify=True)

Make = Callable[..., TrainerJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[TrainerJob] = []

    def build(name: str, checkpoint: dict[str, Any] | None = None, **settings: Any) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        fields = {"directory": str(directory / "volume"), "every": 5, "keep": 3} | (checkpoint or {})
        given: dict[str, Any] = {"trainer": CONFIG, "replicas": 2, "communication": FED_BACK} | settings
        made.append(TrainerJob(directory, checkpoint=CheckpointSettings.model_validate(fields), **given))
        return made[-1]

    yield build
    for job in made:
        job.close()


def volume(job: TrainerJob) -> Path:
    return job.directory / "volume"


def notices(job: TrainerJob) -> list[tuple[str, str]]:
    status = job.status(0)
    report = status.job_report if status else None
    return [(notice.reason, notice.message) for notice in report.notices] if report else []


@pytest.mark.timeout(900)
def test_killed_as_a_whole_again_and_again_it_ends_with_the_same_bits(make: Make) -> None:
    plain, killed = make("plain", {"every": 100}), make("killed", {"every": 2})
    plain.start_all()
    plain.finish()

    seed = random.randrange(10**6)
    moments = random.Random(seed)
    reached = []
    for epoch in range(KILLS):
        for replica in range(2):
            killed.start(replica, epoch)
        start = max((found.round for found in candidates(volume(killed)) if not found.problem), default=0)
        killed.until(lambda start=start: killed.round(0) > start, f"progress (seed {seed})")  # type: ignore[misc]
        time.sleep(moments.uniform(0, 0.3))
        for replica in range(2):
            killed.kill(replica)
        assert all(not found.problem for found in candidates(volume(killed)))
        reached.append(max(killed.losses))
        if len(killed.digests) == 1 or max(killed.losses) == CONFIG.rounds:
            break
    for replica in range(2):
        killed.start(replica, KILLS)
    killed.finish()
    assert set(killed.digests) == {plain.digest}, f"seed {seed}"
    assert killed.losses == plain.losses, f"seed {seed}, reached {reached}"


def test_a_preempted_replica_makes_all_save_first(make: Make) -> None:
    plain, preempted = make("plain", {"every": 100}), make("preempted", {"every": 1000})
    plain.start_all()
    plain.finish()

    preempted.start_all()
    preempted.until(lambda: preempted.round(0) > 3, "progress")
    terminate(preempted.agents[1])
    assert preempted.wait(1) == ExitCode.PREEMPTED
    (saved,) = candidates(volume(preempted))
    assert not saved.problem
    assert saved.round > 3
    preempted.start(1, epoch=1)
    preempted.finish()
    assert preempted.starts == ["the seed", f"round-{saved.round:08d}"]
    assert preempted.digest == plain.digest


def test_when_all_are_preempted_at_once_they_save_once(make: Make) -> None:
    job = make("job", {"every": 1000})
    job.start_all()
    job.until(lambda: job.round(0) > 3, "progress")
    for replica in range(2):
        terminate(job.agents[replica])
    assert [job.wait(replica) for replica in range(2)] == [ExitCode.PREEMPTED] * 2
    (saved,) = candidates(volume(job))
    assert not saved.problem
    for replica in range(2):
        job.start(replica, epoch=1)
    job.finish()
    assert job.starts == ["the seed", f"round-{saved.round:08d}"]


def test_preemption_saves_nothing_when_it_must_not(make: Make) -> None:
    job = make("job", {"every": 1000, "saveOnPreemption": False})
    job.start_all()
    job.until(lambda: job.round(0) > 3, "progress")
    terminate(job.agents[1])
    assert job.wait(1) == ExitCode.PREEMPTED
    assert candidates(volume(job)) == []


def test_a_lost_machine_is_made_up_for_by_anothers_memory(make: Make) -> None:
    """With no checkpoint on the volume, nothing but copies can bring the round back."""
    plain = make("plain", {"every": 100})
    lost = make("lost", {"every": 1000, "replicate": "Always"}, faults="kill:rank=1,round=40")
    plain.start_all()
    plain.finish()

    lost.start_all()
    assert lost.wait(1) == 137
    lost.start(1, epoch=1)
    lost.finish()
    # Copying may take longer than a round.
    assert "round-00000020" < lost.starts[1] <= "round-00000039"
    assert lost.digest == plain.digest


@needs_root
@pytest.mark.parametrize(("options", "reason"), [("size=2m", "No space left"), ("ro", "Read-only file system")])
def test_a_volume_that_refuses_costs_checkpoints_only(make: Make, tmp_path: Path, options: str, reason: str) -> None:
    """It holds two checkpoints; later it has no room, or cannot be written, and then it can again."""
    mounted = SmallVolume(tmp_path / "mounted", "40m")
    try:
        job = make("job", {"directory": str(tmp_path / "mounted")}, replicas=1, prefix=mounted.command)
        job.trainer = CONFIG.model_copy(update={"rounds": 100_000})
        job.start_all()
        job.until(lambda: len(candidates(mounted.inside)) == 3, "three checkpoints")
        size = sum(file.stat().st_size for file in mounted.inside.rglob("*") if file.is_file())
        mounted.remount("ro" if options == "ro" else f"size={size + (1 << 16)}")
        job.until(lambda: any(kind == "CheckpointFailed" for kind, _ in notices(job)), "a notice")
        assert any(reason in message for _, message in notices(job))
        before = candidates(mounted.inside)
        assert [found.problem for found in before] == [""] * 3
        round = job.round()
        job.until(lambda: job.round() > round + 20, "progress")
        assert candidates(mounted.inside) == before
        mounted.remount("rw,size=40m" if options == "ro" else "size=40m")
        job.until(lambda: candidates(mounted.inside)[0].round > round, "a new checkpoint")
        job.close()
    finally:
        mounted.close()


def test_another_jobs_parameters_are_a_beginning(make: Make) -> None:
    first = make("first", trainer=CONFIG.model_copy(update={"rounds": 20}), replicas=1)
    first.start_all()
    first.finish()
    other = WarmStart(directory=str(volume(first)))
    for optimizer in (False, True):
        settings = other.model_copy(update={"optimizer": optimizer})
        warm = make(
            f"warm-{optimizer}", {"warmStart": settings}, trainer=CONFIG.model_copy(update={"rounds": 10, "seed": 2})
        )
        warm.start_all()
        warm.finish()
        assert "start from the parameters of checkpoint round-00000020.gen-0.0 in" in warm.log(0)
        # It begins where the other ended, and with a round of its own count.
        assert warm.losses[1] < first.losses[1] - 1
        assert warm.losses.keys() == set(range(1, 11))


def test_a_beginning_that_is_not_there_is_said(make: Make, tmp_path: Path) -> None:
    job = make("job", {"warmStart": WarmStart(directory=str(tmp_path / "nowhere"))}, replicas=1)
    job.start_all()
    assert job.wait(0) == ExitCode.BAD_CONFIGURATION
    assert "there is no checkpoint in" in job.termination(0).message
    assert "correct spec.checkpoint.restoreFrom" in job.termination(0).message
