"""Training code of a user under real agents: faults, checkpoints, other meshes."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ringtrain.checkpoint.volume import candidates
from ringtrain.contract.communication import CommunicationConfig
from ringtrain.contract.environment import CheckpointSettings, ReplicaEnvironment
from ringtrain.contract.exit_codes import ExitCode
from ringtrain.contract.parallelism import ParallelismConfig
from ringtrain.contract.report import Progress
from support.loopback_job import LoopbackJob

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[2] / "support" / "own_training.py"
FEEDBACK = CommunicationConfig(codec="zfp", error_feedback="plain", warmup_rounds=2)
PLAIN = CommunicationConfig(codec="none")


@dataclass
class OwnJob(LoopbackJob):
    replicas: int = 2
    rounds: int = 12
    kind: str = "whole"
    workers: int = 0
    width: int = 30
    name_of_model: str = "model"
    communication: CommunicationConfig = FEEDBACK
    parallelism: ParallelismConfig = ParallelismConfig()  # noqa: RUF009 - it is frozen

    def environment(self, replica: int, epoch: int = 0) -> ReplicaEnvironment:
        words = (self.rounds, self.kind, self.workers, self.width, self.name_of_model)
        return replace(
            super().environment(replica, epoch),
            command=(sys.executable, str(SCRIPT), *map(str, words)),
            communication=self.communication,
            parallelism=self.parallelism,
        )

    def start_again(self, epoch: int, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)
        for replica in range(self.replicas):
            self.start(replica, epoch)

    def finish(self) -> None:
        codes = {replica: self.wait(replica) for replica in self.agents}
        logs = "\n".join(f"--- replica {replica}\n{self.log(replica)[-4000:]}" for replica in self.agents)
        assert set(codes.values()) == {0}, f"{codes}\n{logs}"

    @property
    def digests(self) -> list[str]:
        """Those of all runs that finished."""
        return re.findall(r"^final digest ([0-9a-f]{64})$", self.log(0), re.MULTILINE)

    @property
    def starts(self) -> list[str]:
        """What each generation started from."""
        return re.findall(r"start from (?:checkpoint )?(its beginning|round-\d+)", self.log(0))

    def progress(self, epoch: int = 0) -> Progress:
        progress = self.termination(0, epoch).progress
        assert progress is not None
        return progress


Make = Callable[..., OwnJob]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    made: list[OwnJob] = []

    def build(name: str, checkpoint: bool = True, **settings: Any) -> OwnJob:
        directory = tmp_path_factory.mktemp(name)
        volume = CheckpointSettings(directory=str(directory / "volume"), every=5, keep=3) if checkpoint else None
        made.append(OwnJob(directory, checkpoint=volume, **settings))
        return made[-1]

    yield build
    for job in made:
        job.close()


@pytest.fixture(scope="module")
def plain(make: Make) -> OwnJob:
    """Whole models, and nothing happens."""
    job = make("plain")
    job.start_all()
    job.finish()
    assert len(job.digests) == 1
    return job


def test_rounds_are_told_and_saved(plain: OwnJob) -> None:
    found = candidates(Path(plain.directory / "volume"))
    # A save that is due while another runs is left out.
    assert found[0].round == 12
    assert {each.round for each in found} <= {12, 10, 5}
    assert {each.problem for each in found} == {""}
    told = plain.progress()
    assert (told.round, told.total_rounds) == (12, 12)
    assert told.loss is not None
    assert told.tokens_per_second
    assert told.communication is not None
    assert told.communication.codec == "zfp-5"


def test_a_killed_rank_changes_no_bit(make: Make, plain: OwnJob) -> None:
    """Nor do its dropout, running means, moments, schedule and error feedback."""
    faulty = make("faulty", faults="kill:rank=1,round=8")
    faulty.start_all()
    assert faulty.wait(1) == 137
    faulty.start(1, epoch=1)
    faulty.finish()
    assert faulty.starts == ["its beginning", "round-00000005"]
    assert faulty.digests == plain.digests
    assert faulty.progress().loss == plain.progress().loss


def test_workers_draw_the_same_after_a_kill(make: Make) -> None:
    plain, faulty = make("working", workers=1), make("killed", workers=1, faults="kill:rank=1,round=8")
    plain.start_all()
    plain.finish()
    faulty.start_all()
    assert faulty.wait(1) == 137
    faulty.start(1, epoch=1)
    faulty.finish()
    assert len(plain.digests) == 1
    assert faulty.digests == plain.digests


def test_without_a_volume_a_lost_replica_sends_all_to_the_beginning(make: Make, plain: OwnJob) -> None:
    faulty = make("forgetful", checkpoint=False, faults="kill:rank=0,round=4")
    faulty.start_all()
    assert faulty.wait(0) == 137
    faulty.start(0, epoch=1)
    faulty.finish()
    assert faulty.starts == ["its beginning", "its beginning"]
    assert faulty.digests == plain.digests


def end_once_saved(job: OwnJob, round: int) -> None:
    """All of it at once, while its ranks wait for one that was stopped."""
    assert job.checkpoint is not None
    root = Path(job.checkpoint.directory)
    job.until(lambda: any(found.round == round for found in candidates(root)), f"the checkpoint of round {round}")
    for replica in range(job.replicas):
        job.kill(replica)


def test_a_checkpoint_goes_on_at_other_splits(make: Make) -> None:
    """A pipeline of two, then two copies, then a pipeline of four stages: each goes on where the other was."""
    alone = make("alone", replicas=1, kind="layers", rounds=15, communication=PLAIN)
    alone.start_all()
    alone.finish()
    job = make("job", kind="layers", rounds=15, communication=PLAIN, parallelism=ParallelismConfig(pipeline=2))
    job.faults = "stop:rank=1,round=8"
    job.start_all()
    end_once_saved(job, 5)
    job.start_again(1, faults="stop:rank=0,round=13,epoch=1", parallelism=ParallelismConfig())
    end_once_saved(job, 10)
    job.start_again(2, parallelism=ParallelismConfig(pipeline=2, schedule="Interleaved1F1B"))
    job.finish()
    assert job.starts == ["its beginning", "round-00000005", "round-00000010"]
    assert "random generators and error feedback start anew: of other ranks, or lost" in job.log(0)
    assert job.progress(epoch=2).loss == pytest.approx(alone.progress().loss, rel=1e-4)


def test_a_pipeline_whose_stage_is_killed_changes_no_bit(make: Make) -> None:
    layout = ParallelismConfig(pipeline=2)
    plain = make("stages", kind="layers", parallelism=layout)
    faulty = make("lost-stage", kind="layers", parallelism=layout, faults="kill:rank=1,round=8")
    plain.start_all()
    plain.finish()
    faulty.start_all()
    assert faulty.wait(1) == 137
    faulty.start(1, epoch=1)
    faulty.finish()
    # What no other machine holds was copied into the other's memory.
    assert faulty.starts[1] in ("round-00000005", "round-00000006", "round-00000007")
    assert len(plain.digests) == 1
    assert faulty.digests == plain.digests


def test_a_checkpoint_of_other_training_code_is_refused(make: Make) -> None:
    job = make("refused", replicas=1, rounds=5)
    job.start_all()
    job.finish()
    problems: dict[str, dict[str, Any]] = {
        "its tensor model.4.weight is float32 (30, 40), but the model's is float32 (20, 40)": {"width": 20},
        "it has no net, but model, optimizer, scheduler, loader": {"name_of_model": "net"},
    }
    for epoch, (problem, changes) in enumerate(problems.items(), start=1):
        job.start_again(epoch, **changes)
        assert job.wait(0) == ExitCode.BAD_CONFIGURATION
        message = job.termination(0, epoch).message
        assert f"checkpoint round-00000005.gen-0.0 is of other training code: {problem}. Give" in message
