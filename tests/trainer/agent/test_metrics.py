from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families

from ringtrain.agent.metrics import Metrics, Sample
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import (
    AgentStatus,
    CheckpointRecord,
    CheckpointTotals,
    CommunicationTotals,
    Fitness,
    JobReport,
    LinkTotals,
    Progress,
    RankStatus,
)

PROGRESS = Progress(
    round=7,
    total_rounds=9,
    loss=2.5,
    evaluation_loss=2.75,
    gradient_norm=1.5,
    tokens_per_second=1000.0,
    flops_per_second=6e9,
    communication_share=0.25,
)
REPORT = JobReport(
    generation="3.1",
    phase=Phase.TRAINING,
    progress=Progress(round=6, total_rounds=9),
    last_checkpoint=CheckpointRecord(round=5, time=datetime.fromtimestamp(1000, UTC)),
    absent_replicas=(2,),
    stragglers=(3, 5),
)
RANKS = (
    RankStatus(rank=2, phase=Phase.TRAINING, beat_age=0.5, progress=PROGRESS, restarts=2),
    RankStatus(rank=3, phase=Phase.WAITING, beat_age=1.5),
)
BASE = (("namespace", "default"), ("replica", "1"), ("training_job", "job"))

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(ranks: tuple[RankStatus, ...], report: JobReport | None) -> Values:
    status = AgentStatus(job="job", replica=1, epoch=3, live=True, ranks=ranks, job_report=report)
    text = Metrics(lambda: Sample("default", status, 4, True)).text().decode()
    families = text_string_to_metric_families(text)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_progress_of_the_job() -> None:
    values = scrape(RANKS, REPORT)
    assert values["ringtrain_round", BASE] == 7
    assert values["ringtrain_total_rounds", BASE] == 9
    assert values["ringtrain_loss", BASE] == 2.5
    assert values["ringtrain_evaluation_loss", BASE] == 2.75
    assert values["ringtrain_gradient_norm", BASE] == 1.5
    assert values["ringtrain_tokens_per_second", BASE] == 1000
    assert values["ringtrain_model_flops_per_second", BASE] == 6e9
    assert ("ringtrain_peak_flops_per_second", BASE) not in values
    assert values["ringtrain_communication_share", BASE] == 0.25


def test_what_the_preflight_check_measured() -> None:
    fits = (Fitness(product=0.5, exchange=0.25), Fitness(product=0.75), None)
    ranks = tuple(
        RankStatus(rank=rank, phase=Phase.TRAINING, beat_age=0, fitness=fitness) for rank, fitness in enumerate(fits)
    )
    values = scrape(ranks, REPORT)
    measured = {(name, dict(labels)["rank"]): value for (name, labels), value in values.items() if "preflight" in name}
    assert measured == {
        ("ringtrain_preflight_product_seconds", "0"): 0.5,
        ("ringtrain_preflight_product_seconds", "1"): 0.75,
        ("ringtrain_preflight_exchange_seconds", "0"): 0.25,
    }


def test_communication_of_every_rank() -> None:
    totals = CommunicationTotals(
        codec="zfp-4",
        rounds=7,
        round_seconds=70,
        communication_seconds=40,
        exposed_seconds=5,
        intra=LinkTotals(raw_bytes=10, sent_bytes=20, codec_seconds=0, wire_seconds=3),
        inter=LinkTotals(
            raw_bytes=800, sent_bytes=100, codec_seconds=12, wire_seconds=30, sampled_square=4, lost_square=1
        ),
    )
    ranks = tuple(
        RankStatus(rank=rank, phase=Phase.TRAINING, beat_age=0, progress=progress)
        for rank, progress in ((2, PROGRESS.model_copy(update={"communication": totals})), (3, PROGRESS))
    )
    values = scrape(ranks, REPORT)
    rank = tuple(sorted((*BASE, ("rank", "2"))))
    assert values["ringtrain_rounds_total", rank] == 7
    assert values["ringtrain_round_seconds_total", rank] == 70
    assert values["ringtrain_communication_seconds_total", rank] == 40
    assert values["ringtrain_communication_exposed_seconds_total", rank] == 5
    assert values["ringtrain_compression_error", tuple(sorted((*rank, ("codec", "zfp-4"))))] == 0.5
    inter = tuple(sorted((*rank, ("link", "inter"), ("codec", "zfp-4"))))
    intra = tuple(sorted((*rank, ("link", "intra"), ("codec", "none"))))
    assert [values["ringtrain_communication_raw_bytes_total", link] for link in (intra, inter)] == [10, 800]
    assert [values["ringtrain_communication_sent_bytes_total", link] for link in (intra, inter)] == [20, 100]
    assert [values["ringtrain_codec_seconds_total", link] for link in (intra, inter)] == [0, 12]
    assert [values["ringtrain_wire_seconds_total", link] for link in (intra, inter)] == [3, 30]
    assert not any(("rank", "3") in labels for name, labels in values if "communication_sent" in name)


def test_membership_and_checkpoints() -> None:
    values = scrape(RANKS, REPORT)
    assert values["ringtrain_live", BASE] == 1
    assert values["ringtrain_connected", BASE] == 1
    assert values["ringtrain_pod_epoch", BASE] == 3
    assert values["ringtrain_generations_total", BASE] == 4
    assert values["ringtrain_generation_epoch", BASE] == 3
    assert values["ringtrain_generation_attempt", BASE] == 1
    assert values["ringtrain_absent_replicas", BASE] == 1
    assert values["ringtrain_last_checkpoint_round", BASE] == 5
    assert values["ringtrain_last_checkpoint_timestamp_seconds", BASE] == 1000


def test_every_rank_has_its_heartbeat_and_exactly_one_phase() -> None:
    values = scrape(RANKS, REPORT)
    assert values["ringtrain_heartbeat_age_seconds", tuple(sorted((*BASE, ("rank", "3"))))] == 1.5
    for rank, phase in (("2", "training"), ("3", "waiting")):
        phases = {
            dict(labels)["phase"]: value
            for (name, labels), value in values.items()
            if name == "ringtrain_rank_phase" and dict(labels)["rank"] == rank
        }
        assert set(phases) == {known.value for known in Phase}
        assert [name for name, value in phases.items() if value] == [phase]


def test_a_new_pod_tells_the_coordinators_progress() -> None:
    assert scrape((RANKS[1],), REPORT)["ringtrain_round", BASE] == 6


def test_what_is_unknown_is_left_out() -> None:
    names = {name for name, _ in scrape((), None)}
    assert "ringtrain_live" in names
    assert not names & {"ringtrain_round", "ringtrain_loss", "ringtrain_generation_epoch", "ringtrain_absent_replicas"}


def test_restarts_of_every_rank() -> None:
    values = scrape(RANKS, REPORT)
    found = {dict(labels)["rank"]: value for (name, labels), value in values.items() if "rank_restarts" in name}
    assert found == {"2": 2, "3": 0}


def test_only_a_replica_tells_of_its_own_stragglers() -> None:
    values = scrape(RANKS, REPORT)
    found = {dict(labels)["rank"]: value for (name, labels), value in values.items() if "rank_straggler" in name}
    assert found == {"2": 0, "3": 1}


def test_saves_of_every_rank() -> None:
    totals = CheckpointTotals(
        committed=3, failed=1, skipped=2, snapshots=40, snapshot_seconds=0.5, write_seconds=9, written_bytes=1000
    )
    progress = PROGRESS.model_copy(update={"checkpoints": totals})
    values = scrape((RANKS[0].model_copy(update={"progress": progress}),), REPORT)
    of_rank = (*BASE[:1], ("rank", "2"), *BASE[1:])
    outcomes = {
        dict(labels)["outcome"]: v for (name, labels), v in values.items() if name == "ringtrain_checkpoints_total"
    }
    assert outcomes == {"committed": 3, "failed": 1, "skipped": 2}
    assert values["ringtrain_snapshots_total", of_rank] == 40
    assert values["ringtrain_snapshot_seconds_total", of_rank] == 0.5
    assert values["ringtrain_checkpoint_write_seconds_total", of_rank] == 9
    assert values["ringtrain_checkpoint_written_bytes_total", of_rank] == 1000
