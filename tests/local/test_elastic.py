"""A job of real replicas that trains on while one of them has no place, and grows when there is one."""

import asyncio
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from local.crowded import CrowdedCluster
from local.harness import JOB, TEXT
from ringtrain_operator.api.status import TERMINAL, JobPhase, TrainingJobStatus
from ringtrain_operator.local.container import Machine
from ringtrain_operator.local.job_file import ANY_IMAGE
from ringtrain_operator.local.loopback import LoopbackBlock
from ringtrain_operator.local.run_directory import RunDirectory
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.plan.result import Event
from ringtrain_operator.reconcile import reconcile

pytestmark = pytest.mark.distributed

KEY = JobKey("default", "elastic")
ROUNDS = 300
PATIENCE = 300.0


def test_a_job_trains_smaller_and_grows_again(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "bottles.txt").write_text(TEXT)
    spec = yaml.safe_load(JOB.format(name=KEY.name, rounds=ROUNDS, inter="gloo", training_timeout=60))["spec"]
    spec["faultTolerance"]["recovery"] = "Live"
    spec |= ANY_IMAGE | {"elastic": {"minReplicas": 2, "waitSeconds": 1, "growAfterSeconds": 2}}
    events: list[Event] = []
    with RunDirectory.open(tmp_path / KEY.name, KEY) as directory:
        history = asyncio.run(_run(spec, directory, tmp_path, events))
        told = [event.reason for event in events if event.reason in ("Reduced", "Grown", "Scaled", "Succeeded")]
        assert told == ["Reduced", "Grown", "Succeeded"]
        small = [status for status in history if status.reduced is not None and status.phase is JobPhase.RUNNING]
        assert {len(status.members) for status in small} == {2}
        assert small[0].message.endswith("of 3: replica 2: the machine is full")
        last = history[-1]
        assert (last.phase, last.progress, len(last.members)) == (JobPhase.SUCCEEDED, f"{ROUNDS}/{ROUNDS}", 3)
        assert (last.reduced, last.restarts) == (None, 0)
        # It went on where the two had been, and not from the seed.
        log = Path(directory.log_file.format(pod=f"{KEY.name}-0-{last.epoch}")).read_text()
        assert "3 ranks start from checkpoint round-" in log


async def _run(
    spec: dict[str, object], directory: RunDirectory, folder: Path, events: list[Event]
) -> list[TrainingJobStatus]:
    """There is room for two, and for three once rounds are trained. Returns what the status was after each pass."""
    block = LoopbackBlock(random.Random())
    machine = Machine(addresses=block.addresses, checkpoints=directory.checkpoints, base_environment=os.environ)
    cluster = CrowdedCluster(KEY, spec, TrainingJobStatus(), directory, machine, folder, events.append, room=2)
    history: list[TrainingJobStatus] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while cluster.status.phase not in TERMINAL or cluster.running:
                await reconcile(cluster, KEY, datetime.now(UTC))
                history.append(cluster.status)
                if cluster.status.round > 0:
                    cluster.room = 3
                await asyncio.sleep(0.2)
    finally:
        await cluster.close()
        block.close()
    return history
