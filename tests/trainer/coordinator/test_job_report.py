from dataclasses import replace
from datetime import UTC, datetime

from ringtrain.contract.generation import Generation
from ringtrain.contract.messages import Beat
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import CheckpointRecord, JobReport, Notice, Progress
from ringtrain.coordinator.job_report import job_report
from ringtrain.coordinator.state import Member, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GATHERING = State(job="job", replicas=3, procs_per_replica=1, coordinator_id="abc", members={1: Member(7, 0)})


def test_while_members_gather() -> None:
    assert job_report(GATHERING) == JobReport(phase=Phase.WAITING, absent_replicas=(0, 2), coordinator_id="abc")


def test_ranks_that_rendezvous_by_themselves_train_in_the_generation_they_were_started_in() -> None:
    starting = replace(GATHERING, started=Generation(2, 1))
    assert (job_report(starting).generation, job_report(starting).phase) == (None, Phase.WAITING)
    training = replace(starting, own_group=True)
    assert (job_report(training).generation, job_report(training).phase) == ("2.1", Phase.TRAINING)


def test_while_training() -> None:
    progress, checkpoint = Progress(round=4, total_rounds=9), CheckpointRecord(round=5, time=NOW)
    notice = Notice(sequence=0, time=NOW, reason="Told", message="x")
    state = replace(
        GATHERING,
        generation=Generation(2, 1),
        members={replica: Member(replica, 2) for replica in range(3)},
        beats={
            2: Beat(rank=2, phase=Phase.TRAINING, generation="2.1"),
            1: Beat(rank=1, phase=Phase.CHECKPOINTING, generation="2.1"),
            0: Beat(rank=0, phase=Phase.WAITING),
        },
        progress=progress,
        last_checkpoint=checkpoint,
        notices=(notice,),
    )
    assert job_report(state) == JobReport(
        generation="2.1",
        phase=Phase.CHECKPOINTING,
        progress=progress,
        last_checkpoint=checkpoint,
        coordinator_id="abc",
        notices=(notice,),
    )


def test_at_the_end() -> None:
    report = job_report(replace(GATHERING, finished=True))
    assert (report.finished, report.phase) == (True, Phase.DONE)
