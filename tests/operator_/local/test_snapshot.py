from datetime import UTC, datetime
from typing import Any

import pytest

from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, CheckpointRecord, JobReport, Progress, RankStatus
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.local.snapshot import History, Snapshot, facts, take, thousands
from ringtrain_operator.plan.observed import Pod, PodPhase

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def pod(index: int, epoch: int = 0, **fields: Any) -> Pod:
    values: dict[str, Any] = {"phase": PodPhase.RUNNING, "created": NOW}
    return Pod(name=f"small-{index}-{epoch}", uid=f"{index}.{epoch}", index=index, epoch=epoch, **values | fields)


def agent(index: int, *phases: Phase, live: bool = True, progress: Progress | None = None) -> AgentStatus:
    return AgentStatus(
        job="small",
        replica=index,
        epoch=0,
        live=live,
        reason="" if live else "rank 2: no heartbeat",
        ranks=tuple(RankStatus(rank=rank, phase=phase, beat_age=0.1) for rank, phase in enumerate(phases)),
        job_report=JobReport(progress=progress) if progress else None,
    )


def test_each_replica_has_one_state() -> None:
    pods = [
        pod(0),
        pod(1, 0, phase=PodPhase.FAILED, exit_code=137),
        pod(1, 2),
        pod(2, phase=PodPhase.FAILED, exit_code=82),
        pod(4, deleting=True),
        pod(5),
        pod(6, phase=PodPhase.SUCCEEDED, exit_code=0),
    ]
    agents = {0: agent(0, Phase.TRAINING, Phase.WAITING), 5: agent(5, Phase.TRAINING, live=False)}
    snapshot = take(TrainingJobStatus(replicas=7), pods, agents)
    assert [(replica.pod, replica.state) for replica in snapshot.replicas] == [
        ("small-0-0", "training, waiting"),
        ("small-1-2", "starting"),
        ("small-2-0", "ended: Hang"),
        ("", "no pod"),
        ("small-4-0", "stopping"),
        ("small-5-0", "not live: rank 2: no heartbeat"),
        ("small-6-0", "done"),
    ]


def test_a_silent_replica_starts_or_ends() -> None:
    for phase, state in ((JobPhase.STARTING, "starting"), (JobPhase.SUCCEEDED, "ending")):
        (replica,) = take(TrainingJobStatus(replicas=1, phase=phase), [pod(0)], {}).replicas
        assert replica.state == state


def test_progress_is_of_the_lowest_replica_that_knows_any() -> None:
    progress = Progress(round=3, total_rounds=9, loss=2.5)
    agents = {2: agent(2, progress=Progress(round=1, total_rounds=9)), 0: agent(0), 1: agent(1, progress=progress)}
    assert take(TrainingJobStatus(), [], agents).progress == progress


def test_history_keeps_first_and_last() -> None:
    history = History()
    rounds = [None, Progress(round=0, total_rounds=9), *(Progress(round=n, total_rounds=9, loss=5 - n) for n in (2, 4))]
    for progress in rounds:
        history = history.after(Snapshot(TrainingJobStatus(), progress))
    assert history == History(first=rounds[2], last=rounds[3])


def test_facts_are_said_once_known() -> None:
    assert facts(Snapshot(TrainingJobStatus(), None)) == []
    status = TrainingJobStatus(
        round=4, total_rounds=9, loss="2.51", restarts=1, last_checkpoint=CheckpointRecord(round=3, time=NOW)
    )
    progress = Progress(round=4, total_rounds=9, tokens_per_second=12345)
    assert facts(Snapshot(status, progress)) == [
        "round 4/9",
        "loss 2.5100",
        "12.3k tokens/s",
        "checkpoint 3",
        "restarts 1",
    ]


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (999, "999"), (1000, "1.0k"), (2_340_000, "2.3M")])
def test_rates_are_short(value: float, text: str) -> None:
    assert thousands(value) == text
