from datetime import UTC, datetime
from typing import Any

from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, Progress, RankStatus
from ringtrain_operator.client import JobEvent, TrainingJob
from ringtrain_operator.commands import describe
from ringtrain_operator.commands.show import Sheet
from ringtrain_operator.plan.observed import Pod, PodPhase

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
STATUS: dict[str, Any] = {
    "phase": "Running",
    "message": "training",
    "replicas": 2,
    "ready": 2,
    "generation": "1.0",
    "restarts": 2,
    "countedRestarts": 1,
    "round": 135,
    "totalRounds": 300,
    "progress": "135/300",
    "loss": "2.41309",
    "communication": {"codec": "zfp-4", "share": "8.4%", "ratio": "7.9"},
    "lastCheckpoint": {"round": 130, "time": "2026-01-01T00:04:45Z"},
    "inherited": '{"image":"a"}',
    "startTime": "2026-01-01T00:00:01Z",
    "failures": [
        {
            "time": "2026-01-01T00:01:00Z",
            "replica": 1,
            "rank": 1,
            "pod": "gpt-1-0",
            "reason": "Hang",
            "exitCode": 82,
            "message": "rank 1 hangs",
            "inPlace": True,
        },
        {"time": "2026-01-01T00:02:00Z", "replica": 0, "pod": "gpt-0-0", "reason": "Evicted", "counted": False},
    ],
    "warnings": [{"time": "2026-01-01T00:03:00Z", "reason": "CheckpointDamaged", "message": "round 120 is damaged"}],
}


def job(status: dict[str, Any], created: str | None = "2026-01-01T00:00:00Z") -> TrainingJob:
    metadata = {"namespace": "team", "name": "gpt"} | ({"creationTimestamp": created} if created else {})
    return TrainingJob.of({"metadata": metadata, "spec": {}, "status": status})


def pod(**fields: Any) -> Pod:
    known: dict[str, Any] = {
        "name": "gpt-0-0",
        "uid": "u",
        "index": 0,
        "epoch": 0,
        "phase": PodPhase.RUNNING,
        "created": NOW,
    }
    return Pod(**(known | fields))


def test_a_row() -> None:
    sheet = describe.jobs([job(STATUS)], NOW)
    assert dict(zip(sheet.header, sheet.rows[0], strict=True)) == {
        "NAME": "gpt",
        "PHASE": "Running",
        "PROGRESS": "135/300",
        "LOSS": "2.4131",
        "READY": "2/2",
        "RESTARTS": "2",
        "CHECKPOINT": "130",
        "COMM": "8.4%",
        "AGE": "5m",
        "MESSAGE": "training",
    }


def test_rows_of_all_namespaces() -> None:
    sheet = describe.jobs([job({}), job({})], NOW, namespaces=True)
    assert sheet.header[:2] == ("NAMESPACE", "NAME")
    assert [row[:5] for row in sheet.rows] == [("team", "gpt", "Pending", "-", "-")] * 2


def test_one_job() -> None:
    facts, _, failures, _, warnings = describe.job(job(STATUS), NOW)
    assert facts == (
        "job            team/gpt\n"
        "phase          Running: training\n"
        "round          135 of 300 (45%)\n"
        "loss           2.4131\n"
        "replicas       2 of 2 ready\n"
        "generation     1.0\n"
        "communication  8.4% of a round waited for it, codec zfp-4, 7.9 times fewer bytes\n"
        "checkpoint     round 130, 15s ago\n"
        "restarts       2, counted against the budget: 1\n"
        'inherited      {"image":"a"}\n'
        "started        2026-01-01 00:00:01 UTC"
    )
    assert isinstance(failures, Sheet)
    assert [row[1:] for row in failures.rows] == [
        ("gpt-1-0", "1", "Hang", "82", "in its pod", "rank 1 hangs"),
        ("gpt-0-0", "", "Evicted", "", "pod replaced, not counted", ""),
    ]
    assert isinstance(warnings, Sheet)
    assert warnings.rows == (("2026-01-01 00:03:00 UTC", "CheckpointDamaged", "round 120 is damaged"),)


def test_a_local_run_has_the_age_of_its_start() -> None:
    assert "4m" in describe.job_row(job(STATUS, created=None), NOW)


def test_ranks() -> None:
    progress = Progress(round=5, total_rounds=9, loss=1.5, tokens_per_second=12345, communication_share=0.084)
    rank = RankStatus(rank=3, phase=Phase.TRAINING, beat_age=0.4, progress=progress, restarts=1)
    new = RankStatus(rank=4, phase=Phase.STARTING, beat_age=2)
    agent = AgentStatus(job="gpt", replica=0, epoch=0, live=True, ranks=(rank, new))
    sick = AgentStatus(job="gpt", replica=1, epoch=0, live=False, reason="rank 5 is silent", ranks=(rank,))
    pods = [pod(node="n"), pod(name="gpt-1-0"), pod(name="gpt-2-0")]
    sheet = describe.ranks(pods, {"gpt-0-0": agent, "gpt-1-0": sick})
    assert sheet.rows == (
        ("3", "gpt-0-0", "n", "training", "5/9", "1.5000", "12.3k", "8.4%", "0s", "1"),
        ("4", "gpt-0-0", "n", "starting", "", "", "", "", "2s", "0"),
        ("3", "gpt-1-0", "", "training, not live: rank 5 is silent", "5/9", "1.5000", "12.3k", "8.4%", "0s", "1"),
        ("", "gpt-2-0", "", "running, its agent gives no answer", "", "", "", "", "", ""),
    )


def test_states_of_pods() -> None:
    states = [
        describe.pod_state(found, answers=False)
        for found in (
            pod(phase=PodPhase.PENDING),
            pod(phase=PodPhase.PENDING, waiting_reason="Unschedulable", waiting_message="0/3 nodes"),
            pod(phase=PodPhase.SUCCEEDED, exit_code=0),
            pod(phase=PodPhase.FAILED, exit_code=83, reason="OOMKilled"),
            pod(phase=PodPhase.FAILED, exit_code=78),
            pod(deleting=True),
        )
    ]
    assert states == [
        "pending",
        "pending: Unschedulable: 0/3 nodes",
        "done",
        "ended: OOMKilled",
        "ended: 78",
        "stopping",
    ]
    assert describe.pod_state(pod(), answers=True) == "starting"


def test_events() -> None:
    event = JobEvent(NOW, "Warning", "Hang", "Pod/gpt-0-0", 3, "rank 0 hangs")
    assert describe.events([event], NOW).rows == (("0s", "Warning", "Hang", "Pod/gpt-0-0", "rank 0 hangs (x3)"),)
