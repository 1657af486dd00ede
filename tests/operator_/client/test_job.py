import pytest

from ringtrain_operator.client import Refused, TrainingJob

RAW = {
    "metadata": {
        "namespace": "team",
        "name": "gpt",
        "uid": "u",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {"replicas": 2},
    "status": {"phase": "Succeeded", "observedGeneration": 2, "field of a newer operator": 1},
}


def test_what_a_newer_operator_writes_is_left_out() -> None:
    job = TrainingJob.of(RAW)
    assert (job.namespace, job.name, job.uid, job.generation) == ("team", "gpt", "u", 2)
    assert job.status.phase == "Succeeded"
    assert job.raw["status"] == RAW["status"]
    assert job.is_over


def test_a_job_is_not_over_before_the_operator_saw_its_change() -> None:
    job = TrainingJob.of({**RAW, "metadata": {**RAW["metadata"], "generation": 3}})  # type: ignore[dict-item]
    assert not job.is_over


def test_a_job_that_no_operator_has_seen() -> None:
    job = TrainingJob.of({**RAW, "status": None})
    assert (job.status.phase, job.is_over) == ("Pending", False)


def test_a_status_that_cannot_be_read() -> None:
    with pytest.raises(Refused, match="the status of gpt"):
        TrainingJob.of({**RAW, "status": {"phase": "Unheard"}})


def test_what_it_began_with_is_part_of_its_whole_spec() -> None:
    job = TrainingJob.of({**RAW, "status": {"inherited": '{"gpuResource":"amd.com/gpu","replicas":9}'}})
    assert job.whole_spec == {"gpuResource": "amd.com/gpu", "replicas": 2}
    assert TrainingJob.of(RAW).whole_spec == RAW["spec"]
