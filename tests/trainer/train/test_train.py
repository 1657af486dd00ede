"""The built-in trainer under real agents: faults, restarts, damaged checkpoints."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtrain.checkpoint.manifest import FILE_NAME
from ringtrain.checkpoint.volume import candidates
from ringtrain.contract.environment import CheckpointSettings
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, OptimizerConfig, TrainerConfig
from support.trainer_job import TrainerJob
from trainer.checkpoint.checkpoints import flip

pytestmark = pytest.mark.distributed

CONFIG = TrainerConfig(
    rounds=12,
    seed=1,
    model=ModelConfig(size="nano", context_length=32, dropout=0.1),
    data=DataConfig(paths=("{stdlib}/json/*.py", "{stdlib}/email/*.py")),
    batch=BatchConfig(per_rank=4, accumulation=2),
    optimizer=OptimizerConfig(warmup_rounds=3, learning_rate=3e-3),
)


Make = Callable[..., TrainerJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[TrainerJob] = []

    def build(name: str, checkpoint: bool = True, **settings: Any) -> TrainerJob:
        directory = tmp_path / name
        directory.mkdir()
        # What lies in memory is less than what these tests are about.
        volume = CheckpointSettings(directory=str(directory / "volume"), every=5, keep=3, recovery="Exact")
        made.append(
            TrainerJob(directory, checkpoint=volume if checkpoint else None, **({"trainer": CONFIG} | settings))
        )
        return made[-1]

    yield build
    for job in made:
        job.close()


def volume(job: TrainerJob) -> Path:
    return job.directory / "volume"


def notices(job: TrainerJob) -> set[tuple[str, str]]:
    status = job.status(0)
    report = status.job_report if status else None
    return {(notice.reason, notice.message) for notice in report.notices} if report else set()


def test_a_killed_rank_changes_no_bit(make: Make) -> None:
    plain, faulty = make("plain"), make("faulty", faults="kill:rank=1,round=8")
    plain.start_all()
    plain.finish()
    assert plain.losses.keys() == set(range(1, 13))
    assert plain.losses[12] < plain.losses[1] - 1
    assert [(found.round, found.problem) for found in candidates(volume(plain))] == [(12, ""), (10, ""), (5, "")]

    faulty.start_all()
    assert faulty.wait(1) == 137
    faulty.start(1, epoch=1)
    faulty.finish()
    assert faulty.starts == ["the seed", "round-00000005"]
    assert faulty.losses == plain.losses
    assert faulty.digest == plain.digest
    assert [(found.round, found.generation.epoch) for found in candidates(volume(faulty))] == [(12, 1), (10, 1), (5, 0)]


def test_a_rank_that_all_others_wait_for_is_told(make: Make) -> None:
    job = make("job", trainer=CONFIG.model_copy(update={"rounds": 100_000}), faults="slow:rank=1,round=5")
    job.start_all()
    job.until(lambda: "Straggler" in dict(notices(job)), "a straggler")
    assert dict(notices(job))["Straggler"].startswith("rank 1 works ")


def test_without_a_volume_a_lost_replica_sends_all_to_the_seed(make: Make) -> None:
    plain, faulty = make("plain", checkpoint=False), make("faulty", checkpoint=False, faults="kill:rank=0,round=4")
    plain.start_all()
    faulty.start_all()
    plain.finish()
    assert faulty.wait(0) == 137
    faulty.start(0, epoch=1)
    faulty.finish()
    assert faulty.starts == ["the seed", "the seed"]
    assert faulty.digest == plain.digest


def test_a_job_goes_on_from_its_volume(make: Make) -> None:
    """Unbroken, resumed from an older checkpoint, and started again when nothing is left: the same bits."""
    job = make("job", replicas=2)
    job.start_all()
    job.finish()
    unbroken = job.digest
    flip(candidates(volume(job))[0].path / "replicated-00001.safetensors")

    for replica in range(2):
        job.start(replica, epoch=1)
    job.finish()
    assert job.starts == ["the seed", "round-00000010"]
    assert job.digests == [unbroken] * 2

    for replica in range(2):
        job.start(replica, epoch=2)
    job.finish()
    assert job.starts[2:] == ["round-00000012"]
    assert job.digests == [unbroken] * 3
    # Known although this run trained no round.
    assert job.termination(1, epoch=2).round == 12


def test_a_damaged_checkpoint_is_reported(make: Make) -> None:
    job = make("job", replicas=2, faults="stop:rank=1,round=9,epoch=1")
    job.start_all()
    job.finish()
    flip(candidates(volume(job))[0].path / "local-00001.safetensors")
    for found in candidates(volume(job))[1:2]:
        (found.path / FILE_NAME).unlink()
    for replica in range(2):
        job.start(replica, epoch=1)
    job.until(lambda: len(notices(job)) == 2, "two notices")
    assert notices(job) == {
        ("CheckpointDamaged", "rank 1: round 12: file local-00001.safetensors has a wrong checksum; using round 5"),
        ("CheckpointDamaged", "rank 0: round 10: it has no manifest; using round 5"),
    }


def test_what_can_never_work_is_said_and_not_retried(make: Make) -> None:
    job = make("job", replicas=1, trainer=CONFIG.model_copy(update={"data": DataConfig(paths=("/nowhere/*.txt",))}))
    job.start_all()
    assert job.wait(0) == ExitCode.BAD_CONFIGURATION
    assert "'/nowhere/*.txt' matches no file" in job.termination(0).message


def test_a_checkpoint_of_another_model_is_refused(make: Make) -> None:
    job = make("job", replicas=1, trainer=CONFIG.model_copy(update={"rounds": 5}))
    job.start_all()
    job.finish()

    job.trainer = CONFIG.model_copy(update={"model": ModelConfig(size="nano", context_length=32, width=32)})
    job.start(0, epoch=1)
    assert job.wait(0) == ExitCode.BAD_CONFIGURATION
    message = job.termination(0, epoch=1).message
    assert "round-00000005.gen-0.0 is of another model: its tensor embedding.tokens.weight is float32" in message


def test_a_save_that_fails_costs_only_that_checkpoint(make: Make) -> None:
    job = make("job", replicas=2, trainer=CONFIG.model_copy(update={"rounds": 200}))
    volume(job).mkdir()
    job.start_all()
    job.until(lambda: job.generation(0), "a generation")
    (volume(job) / f".staging.round-00000195.gen-{job.generation(0)}").write_text("in the way")
    job.finish()
    assert job.losses.keys() == set(range(1, 201))
    assert "no checkpoint of round 195: rank " in job.log(0)
    assert "File exists" in job.log(0)
    found = [(found.round, found.problem) for found in candidates(volume(job))]
    assert found[0] == (200, "")
    assert (195, "") not in found


def test_a_volume_that_cannot_be_listed_ends_the_job(make: Make) -> None:
    """Training from the seed could throw away what lies on it."""
    job = make("job", replicas=1)
    volume(job).write_text("a file where the directory should be")
    job.start_all()
    assert job.wait(0) == ExitCode.BAD_CONFIGURATION
    assert str(volume(job)) in job.termination(0).message
