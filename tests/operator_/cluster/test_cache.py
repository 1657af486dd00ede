from typing import Any

import pytest
from pydantic import ValidationError

from ringtrain_operator.cluster.cache import Cache
from ringtrain_operator.cluster.kinds import Kind
from ringtrain_operator.plan.observed import JobKey

KEY = JobKey("n", "job")
CHILDREN = tuple(kind for kind in Kind if kind not in (Kind.JOBS, Kind.NODES))
TIME = "2026-11-29T16:00:00Z"


def raw(name: str, version: int = 1, *, owner: str = "uid-job", uid: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {
        "namespace": "n",
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": TIME,
        "labels": {"ringtrain.io/job": "job"},
        "ownerReferences": [{"uid": owner, "controller": True}],
    }
    return {"metadata": metadata | fields.pop("metadata", {}), "spec": {}, **fields}


def cache(*, listed: bool = True) -> Cache:
    """With the job; all kinds were listed unless told otherwise."""
    found = Cache(tuple(Kind))
    found.put(Kind.JOBS, raw("job"), 0)
    if listed:
        found.listed(Kind.JOBS, [raw("job")], (), 0)
        for kind in CHILDREN:
            found.listed(kind, [], (), 0)
    return found


def names(known: Cache) -> list[tuple[str, bool]]:
    job = known.job(KEY)
    assert job is not None
    return sorted((each.pod.name, each.pod.foreign) for each in known.pods(job))


def test_nothing_is_relied_on_before_every_kind_was_listed() -> None:
    known = cache(listed=False)
    known.listed(Kind.JOBS, [raw("job")], (), 0)
    assert not known.is_current(KEY)
    for kind in CHILDREN:
        known.listed(kind, [], (), 0)
    assert known.is_current(KEY)


def test_a_job_with_an_object_that_the_watch_owes_is_not_relied_on() -> None:
    known = cache()
    pod = raw("job-0-0")
    assert known.listed(Kind.PODS, [pod], {"uid-job-0-0"}, 1) == {KEY}
    assert not known.is_current(KEY)
    assert known.is_current(JobKey("n", "other"))
    known.put(Kind.PODS, pod, 2)
    assert known.is_current(KEY)
    known.listed(Kind.PODS, [pod], {"uid-job-0-0"}, 3)
    known.drop(Kind.PODS, "uid-job-0-0", 4)
    assert known.is_current(KEY)


def test_an_end_that_the_watch_missed_is_found_by_a_list() -> None:
    known = cache()
    known.put(Kind.PODS, raw("job-0-0"), 1)
    assert known.listed(Kind.PODS, [], (), 2) == {KEY}
    assert names(known) == []


def test_a_refused_write_is_followed_by_a_read() -> None:
    known = cache()
    known.outdated(KEY)
    assert not known.is_current(KEY)
    known.read_job(KEY, raw("job", 5), 1, 2)
    job = known.job(KEY)
    assert job is not None
    assert job.resource_version == "5"
    assert known.is_current(KEY)


def test_a_job_that_is_gone_on_the_server_is_gone() -> None:
    known = cache()
    known.read_job(KEY, None, 1, 2)
    assert known.job(KEY) is None


def test_reading_the_children_finds_new_ones_and_drops_those_that_are_gone() -> None:
    known = cache()
    known.put(Kind.PODS, raw("job-0-0"), 0)
    known.read(KEY, {Kind.PODS: [raw("job-1-0")], Kind.SERVICES: [raw("job")]}, 1, 2)
    assert names(known) == [("job-1-0", False)]
    job = known.job(KEY)
    assert job is not None
    assert known.has(job, Kind.SERVICES, "job")


def test_pods_of_another_owner_are_foreign_and_other_children_are_not_there() -> None:
    known = cache()
    known.put(Kind.PODS, raw("job-0-0", owner="earlier"), 0)
    known.put(Kind.SERVICES, raw("job", owner="earlier"), 0)
    assert names(known) == [("job-0-0", True)]
    job = known.job(KEY)
    assert job is not None
    assert not known.has(job, Kind.SERVICES, "job")


def test_a_child_that_is_being_deleted_is_not_there() -> None:
    known = cache()
    known.put(Kind.SERVICES, raw("job"), 0)
    known.put(Kind.SERVICES, raw("job", 2, metadata={"deletionTimestamp": TIME, "resourceVersion": "2"}), 0)
    job = known.job(KEY)
    assert job is not None
    assert not known.has(job, Kind.SERVICES, "job")


def test_the_newer_of_two_jobs_of_one_name_counts() -> None:
    known = cache()
    later = {"creationTimestamp": "2026-11-29T17:00:00Z"}
    known.put(Kind.JOBS, raw("job", 9, uid="second", metadata=later), 1)
    job = known.job(KEY)
    assert job is not None
    assert job.uid == "second"


def test_a_status_that_cannot_be_read_is_told_by_whoever_reads_it() -> None:
    known = cache()
    bad = raw("job", 2, status={"phase": "Nonsense"})
    assert known.put(Kind.JOBS, bad, 1)
    assert not known.is_current(KEY)
    with pytest.raises(ValidationError):
        known.read_job(KEY, bad, 2, 3)
    assert not known.is_current(KEY)


def test_only_what_a_pass_would_see_is_news() -> None:
    known = cache()
    assert known.put(Kind.PODS, raw("job-0-0", 1), 0)
    assert not known.put(Kind.PODS, raw("job-0-0", 2), 0)
    assert known.put(Kind.PODS, raw("job-0-0", 3, status={"phase": "Failed"}), 0)


@pytest.mark.parametrize("kind", [Kind.CLAIMS, Kind.SERVICES])
def test_a_claim_that_an_earlier_job_has_left_is_the_jobs(kind: Kind) -> None:
    known = cache()
    job = known.job(KEY)
    assert job is not None
    known.put(kind, raw("left", metadata={"ownerReferences": []}), 1)
    known.put(kind, raw("going", metadata={"ownerReferences": [], "deletionTimestamp": TIME}), 1)
    known.put(kind, raw("theirs", owner="uid-another"), 1)
    assert [known.has(job, kind, name) for name in ("left", "going", "theirs")] == [kind is Kind.CLAIMS, False, False]


def test_kinds_that_are_not_watched_are_not_waited_for() -> None:
    known = Cache((Kind.JOBS, Kind.PODS))
    known.put(Kind.JOBS, raw("job"), 0)
    for kind in (Kind.JOBS, Kind.PODS):
        known.listed(kind, [], (), 0)
    assert known.is_current(KEY)
    assert known.children == (Kind.PODS,)
