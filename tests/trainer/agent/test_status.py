from ringtrain.agent.record import RankRecord
from ringtrain.agent.status import status, unready_reason
from ringtrain.contract.addresses import Addresses
from ringtrain.contract.phases import Phase, PhaseTimeouts
from ringtrain.contract.report import JobReport
from support.environments import replica_environment

ENVIRONMENT = replica_environment(
    replica=1,
    replicas=2,
    procs_per_replica=2,
    epoch=4,
    addresses=Addresses("loopback", "127.3"),
    timeouts=PhaseTimeouts(training=10),
)


def rank(number: int, phase: Phase, *, judged: bool = True) -> RankRecord:
    return RankRecord(rank=number, pid=number, judged=judged, beat_at=0.0, phase=phase)


def test_status_tells_of_every_rank_and_passes_the_report_on() -> None:
    report = JobReport(generation="4.0", phase=Phase.TRAINING)
    found = status(ENVIRONMENT, [rank(2, Phase.TRAINING), rank(3, Phase.WAITING)], report, 1.0)
    assert (found.job, found.replica, found.epoch, found.live, found.reason) == ("job", 1, 4, True, "")
    assert [(entry.rank, entry.phase) for entry in found.ranks] == [(2, Phase.TRAINING), (3, Phase.WAITING)]
    assert found.job_report == report


def test_status_says_why_the_replica_is_not_live() -> None:
    found = status(ENVIRONMENT, [rank(2, Phase.TRAINING)], None, 11.0)
    assert not found.live
    assert "rank 2" in found.reason


def test_a_replica_is_ready_when_all_its_ranks_have_entered_a_generation() -> None:
    assert unready_reason([rank(2, Phase.COMPILING), rank(3, Phase.TRAINING)]) == ""
    assert unready_reason([rank(2, Phase.TRAINING), rank(3, Phase.WAITING)]) == "rank 3 is waiting"
    assert unready_reason([rank(2, Phase.STARTING)]) == "rank 2 is starting"
    assert unready_reason([rank(2, Phase.STARTING, judged=False)]) == ""
    assert unready_reason([rank(2, Phase.WAITING, judged=False)]) == "rank 2 is waiting"
