import pytest

from operator_.doctor.builders import facts, job
from ringtrain_operator.doctor.checks.gpus import check
from ringtrain_operator.doctor.facts import Unknown
from ringtrain_operator.doctor.finding import Level


@pytest.mark.parametrize(
    ("gpus", "level", "words"),
    [
        ({"nvidia.com/gpu": 8}, Level.OK, "nodes offer 8 nvidia.com/gpu"),
        ({}, Level.WARN, "device: cpu"),
        ({"amd.com/gpu": 4}, Level.WARN, "no nvidia.com/gpu"),
        (Unknown("may not list nodes"), Level.UNKNOWN, "may not list nodes"),
    ],
)
def test_what_nodes_offer(gpus: dict[str, int] | Unknown, level: Level, words: str) -> None:
    (finding,) = check(facts(gpus=gpus))
    assert finding.level is level
    assert words in finding.text


def test_a_job_that_wants_more_than_there_is() -> None:
    finding, _ = check(facts(jobs=(job("big", replicas=3, procsPerReplica=4),)))
    assert (finding.level, finding.text) == (
        Level.FAIL,
        "job big wants 12 nvidia.com/gpu, and all nodes together offer 8",
    )


def test_jobs_that_fit_want_none_or_are_over() -> None:
    over = {"observedGeneration": 1, "phase": "Succeeded"}
    jobs = (job("fits", replicas=8), job("cpu", device="cpu", replicas=99), job("over", replicas=99, status=over))
    assert [finding.level for finding in check(facts(jobs=jobs))] == [Level.OK, Level.OK]


def test_a_job_that_inherits_what_its_gpus_are_called() -> None:
    began = {"observedGeneration": 1, "inherited": '{"gpuResource":"amd.com/gpu"}'}
    finding, _ = check(facts(gpus={"amd.com/gpu": 4}, jobs=(job("gpt", replicas=4, status=began),)))
    assert (finding.level, finding.text) == (Level.OK, "job gpt wants 4 amd.com/gpu of 4")
