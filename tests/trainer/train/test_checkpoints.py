"""Checkpoints of real jobs: killed as a whole at any moment, preempted, on volumes that refuse."""

import os
import random
import signal
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
    """Where a job is done before all kills, others follow it."""
    plain = make("plain", {"every": 100})
    plain.start_all()
    plain.finish()

    seed = random.randrange(10**6)
    moments = random.Random(seed)
    kills = 0
    while kills < KILLS:
        killed = make(f"killed-{kills}", {"every": 2})
        kills += kill_again_and_again(killed, moments, KILLS - kills)
        for replica in range(2):
            killed.start(replica, KILLS)
        killed.finish()
        assert set(killed.digests) == {plain.digest}, f"seed {seed}"
        assert killed.losses == plain.losses, f"seed {seed}"


def kill_again_and_again(job: TrainerJob, moments: random.Random, most: int) -> int:
    """How often the job was killed as a whole, so many times at most, until all its rounds were trained."""
    for epoch in range(most):
        for replica in range(2):
            job.start(replica, epoch)
        start = max((found.round for found in candidates(volume(job)) if not found.problem), default=0)
        job.until(lambda start=start: job.round(0) > start or job.digests != [], "progress")  # type: ignore[misc]
        time.sleep(moments.uniform(0, 0.3))
        if job.digests:
            # Whoever starts it again needs its addresses.
            assert [job.wait(replica) for replica in range(2)] == [0, 0]
            return epoch
        for replica in range(2):
            job.kill(replica)
        assert all(not found.problem for found in candidates(volume(job)))
        if max(job.losses, default=0) == CONFIG.rounds:
            return epoch + 1
    return most


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
    last = preempted.termination(1).last_checkpoint
    assert last is not None
    assert last.round == saved.round
    preempted.start(1, epoch=1)
    preempted.finish()
    assert preempted.starts == ["the seed", f"round-{saved.round:08d}"]
    assert preempted.digest == plain.digest


def test_a_replica_that_is_preempted_while_others_come_back_makes_all_save_first(make: Make) -> None:
    """What ranks hold in memory is all there is of the rounds before."""
    job = make("job", {"every": 1000}, faults="kill:rank=0,round=30", in_place_restarts=1)
    job.start_all()
    job.until(lambda: "leaving generation" in job.log(1), "a loss")
    terminate(job.agents[1])
    assert job.wait(1) == ExitCode.PREEMPTED
    (saved,) = candidates(volume(job))
    assert not saved.problem
    # Rank 0 may have died before all of round 29 was copied.
    assert saved.round in (29, 30)
    job.start(1, epoch=1)
    job.finish()
    assert job.starts == ["the seed", f"round-{saved.round - 1:08d}", f"round-{saved.round:08d}"]


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
    lost = make("lost", {"every": 1000, "replicate": "Always", "recovery": "Exact"}, faults="kill:rank=1,round=40")
    plain.start_all()
    plain.finish()

    lost.start_all()
    assert lost.wait(1) == 137
    lost.start(1, epoch=1)
    lost.finish()
    # Copying may take longer than a round.
    assert "round-00000020" < lost.starts[1] <= "round-00000039"
    assert lost.digest == plain.digest


def test_while_a_twin_lives_a_lost_machine_costs_the_round_that_ran(make: Make) -> None:
    """With no checkpoint on the volume and no copies, it is the others' living state that all go on from. Where
    nothing is drawn and nothing fed back, the bits are those of a job that nothing happened to."""
    settings: dict[str, Any] = {
        "trainer": CONFIG.model_copy(update={"model": ModelConfig(size="nano", context_length=32)}),
        "communication": CommunicationConfig(codec="zfp", warmup_rounds=3, verify=True),
        "replicas": 3,
    }
    plain = make("plain", {"every": 100}, **settings)
    lost = make("lost", {"every": 1000}, faults="kill:rank=1,round=40", **settings)
    plain.start_all()
    plain.finish()

    lost.start_all()
    assert lost.wait(1) == 137
    lost.start(1, epoch=1)
    lost.until(lambda: "StateFromTwins" in dict(notices(lost)), "a notice")
    assert "the state of lost ranks (1) after round 39 is that of their twins" in dict(notices(lost))["StateFromTwins"]
    lost.finish()
    assert lost.starts == ["the seed", "round-00000039"]
    assert lost.digest == plain.digest


@pytest.mark.parametrize("recovery", ["Live", "Exact"])
def test_a_rank_that_dies_costs_no_finished_round(make: Make, recovery: str) -> None:
    """It may die before it has copied the round that it has just finished, but its twins have finished it too. Where
    nothing is drawn and nothing fed back, that is all there is to know of it."""
    settings: dict[str, Any] = {
        "trainer": CONFIG.model_copy(update={"model": ModelConfig(size="nano", context_length=32)}),
        "communication": CommunicationConfig(codec="zfp", warmup_rounds=3, verify=True),
        "replicas": 3,
    }
    plain = make("plain", {"every": 100}, **settings)
    faults = ";".join(f"kill:rank={rank},round={round}" for rank, round in ((1, 20), (0, 30), (2, 40)))
    struck = make("struck", {"every": 1000, "recovery": recovery}, faults=faults, in_place_restarts=1, **settings)
    for job in (plain, struck):
        job.start_all()
        job.finish()
    assert struck.starts == ["the seed", "round-00000019", "round-00000029", "round-00000039"]
    assert struck.digest == plain.digest


@needs_root
@pytest.mark.parametrize(("options", "reason"), [("size=2m", "No space left"), ("ro", "Read-only file system")])
def test_a_volume_that_refuses_costs_checkpoints_only(make: Make, tmp_path: Path, options: str, reason: str) -> None:
    """It holds two checkpoints; later it has no room, or cannot be written, and then it can again. A rank that dies
    meanwhile goes on from memory."""
    mounted = SmallVolume(tmp_path / "mounted", "40m")
    try:
        job = make(
            "job", {"directory": str(tmp_path / "mounted")}, replicas=1, prefix=mounted.command, in_place_restarts=1
        )
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
        os.kill(job.rank_pid(0), signal.SIGKILL)
        job.until(lambda: job.round() > round + 20, "progress")
        assert job.starts[1] > f"round-{before[0].round:08d}"
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
