"""Pipelines under real agents: faults, and checkpoints of one mesh in another."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import CheckpointSettings, Recovery
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.trainer_config import BatchConfig, DataConfig, ModelConfig, OptimizerConfig, TrainerConfig
from support.trainer_job import TrainerJob

pytestmark = pytest.mark.distributed

TRAINER = TrainerConfig(
    rounds=12,
    seed=1,
    model=ModelConfig(size="nano", layers=4, context_length=32),
    data=DataConfig(paths=("{stdlib}/json/*.py", "{stdlib}/email/*.py")),
    batch=BatchConfig(per_rank=4),
    optimizer=OptimizerConfig(warmup_rounds=3, learning_rate=3e-3),
)


EXACT = CommunicationConfig(codec="none")


@dataclass(frozen=True)
class Trained:
    """An unbroken run on two machines of two ranks, a pipeline on each."""

    volume: Path
    digest: str
    losses: dict[int, float]


Make = Callable[..., TrainerJob]


def _job(directory: Path, recovery: Recovery = "Exact", **settings: Any) -> TrainerJob:
    mesh: dict[str, Any] = {
        "replicas": 2,
        "procs_per_replica": 2,
        "parallelism": ParallelismConfig(pipeline=2, microbatches=2),
    }
    volume = CheckpointSettings(directory=str(directory / "volume"), every=5, keep=3, recovery=recovery)
    return TrainerJob(directory, checkpoint=volume, trainer=TRAINER, communication=EXACT, **(mesh | settings))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    job = _job(tmp_path_factory.mktemp("trained"))
    try:
        job.start_all()
        job.finish()
        return Trained(job.directory / "volume", job.digest, job.losses)
    finally:
        job.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Builds a job, the only one of its test."""
    made: list[TrainerJob] = []

    def build(**settings: Any) -> TrainerJob:
        made.append(_job(tmp_path, **settings))
        return made[-1]

    yield build
    for job in made:
        job.close()


@pytest.mark.parametrize("recovery", ["Exact", "Live"])
def test_a_killed_rank_of_any_stage_changes_no_bit(make: Make, trained: Trained, recovery: Recovery) -> None:
    """In one run: the first stage is lost, then the last one, each time with its whole pipeline's machine. The other
    machine's pipeline has all stages, and no rank has anything of its own that the bits need."""
    job = make(recovery=recovery, faults="kill:rank=0,round=7;kill:rank=3,round=11,epoch=1")
    job.start_all()
    assert job.wait(0) == 137
    job.start(0, epoch=1)
    assert job.wait(1) == 137
    job.start(1, epoch=2)
    job.finish()
    assert len(job.starts) == 3
    # A rank may be killed before the last checkpoint is committed, and before both others have finished its last round.
    assert set(job.starts) <= {"the seed", *(f"round-{round:08d}" for round in (5, 6, 10))}
    assert job.digest == trained.digest
    assert job.losses == trained.losses


@pytest.mark.parametrize(("replicas", "processes", "pipeline"), [(1, 1, 1), (1, 4, 4), (2, 1, 2)])
def test_a_checkpoint_of_pipelines_loads_in_another_mesh(
    make: Make, trained: Trained, replicas: int, processes: int, pipeline: int
) -> None:
    """The job is done, so all that the other mesh does is load it, and say what it holds."""
    job = make(
        replicas=replicas, procs_per_replica=processes, parallelism=ParallelismConfig(pipeline=pipeline), first_epoch=1
    )
    shutil.copytree(trained.volume, job.directory / "volume")
    job.start_all()
    job.finish()
    assert job.starts == ["round-00000012"]
    assert job.digest == trained.digest


def test_another_mesh_goes_on_training(make: Make, trained: Trained) -> None:
    """With everything exact and the same global batch, it trains what the first one would have, but for rounding."""
    job = make(replicas=1, procs_per_replica=2, parallelism=ParallelismConfig(), first_epoch=1)
    shutil.copytree(trained.volume, job.directory / "volume", ignore=shutil.ignore_patterns("round-00000012*"))
    job.start_all()
    job.finish()
    assert job.starts == ["round-00000010"]
    for round in (11, 12):
        assert job.losses[round] == pytest.approx(trained.losses[round], abs=2e-3)


def test_ranks_say_what_they_hold(make: Make) -> None:
    job = make(replicas=1, faults="stop:rank=1,round=3")
    job.start_all()
    job.until(lambda: job.round() >= 2, "two rounds")
    status = job.status(0)
    assert status is not None
    first, last = (rank.part for rank in status.ranks)
    assert first.startswith("stage 0: embedding, sub-layers 0-3; 0.1")
    assert last.startswith("stage 1: sub-layers 4-7, head; 0.1")
    assert f"rank 0 of each pipeline: {first}\nrank 1 of each pipeline: {last}\n" in job.printed(0)
