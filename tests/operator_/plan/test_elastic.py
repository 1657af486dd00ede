from datetime import timedelta
from typing import Any

import pytest

from operator_.plan.builders import NOW, pod, spec_with, status
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import Reduced, TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.elastic import at_size, is_other, missing, new_size, resized, settled, size
from ringtrain_operator.plan.observed import Pod, PodPhase

ELASTIC = {"minReplicas": 2, "waitSeconds": 60, "growAfterSeconds": 300}


def spec(replicas: int = 4, elastic: Any = ELASTIC, **fields: Any) -> TrainingJobSpec:
    return parse("gpt", spec_with(replicas=replicas, elastic=elastic, **fields))


def stuck(index: int, epoch: int = 0, age: float = 60, **fields: Any) -> Pod:
    created = NOW - timedelta(seconds=age)
    given: dict[str, Any] = {"node": None, "waiting_reason": "Unschedulable", "waiting_message": "no room"} | fields
    return pod(index, epoch, PodPhase.PENDING, created=created, **given)


def reduced(replicas: int, age: float = 300, of: int = 4) -> TrainingJobStatus:
    """Of a job that goes on with so many since `age` seconds."""
    small = Reduced(replicas=replicas, of=of, since=NOW - timedelta(seconds=age), reason="no room")
    return status(*[0] * replicas, reduced=small)


def holder(index: int, **fields: Any) -> Pod:
    return pod(index, holding=True, **fields)


def test_the_job_goes_on_with_those_that_have_a_node() -> None:
    pods = [pod(0), pod(1), stuck(2), pod(3, phase=PodPhase.PENDING)]
    assert new_size(spec(), status(0, 0, 0, 0), pods, [], NOW) == 3


@pytest.mark.parametrize(
    "last",
    [
        stuck(3, age=59),
        stuck(3, waiting_reason=""),
        pod(3, node=None, phase=PodPhase.PENDING, created=NOW - timedelta(hours=1)),
        pod(3, deleting=True),
    ],
)
def test_it_waits_as_long_as_a_pod_may_still_find_one(last: Pod) -> None:
    assert new_size(spec(), status(0, 0, 0, 0), [pod(0), pod(1), stuck(2), last], [], NOW) is None


def test_it_waits_for_pods_that_are_not_created_and_for_the_fewest_that_may_train() -> None:
    assert new_size(spec(), status(0, 0, 0, 0), [pod(0), pod(1), stuck(2)], [], NOW) is None
    assert new_size(spec(), status(0, 0, 0, 0), [pod(0), stuck(1), stuck(2), stuck(3)], [], NOW) is None
    assert new_size(spec(elastic=None), status(0, 0, 0, 0), [pod(0), pod(1), pod(2), stuck(3)], [], NOW) is None


def test_the_size_fits_the_pipelines() -> None:
    of_two = spec(procsPerReplica=1, parallelism={"pipeline": 2})
    assert new_size(of_two, status(0, 0, 0, 0), [pod(0), pod(1), pod(2), stuck(3)], [], NOW) == 2


def test_it_grows_when_every_place_is_held() -> None:
    pods = [pod(0), pod(1)]
    assert new_size(spec(), reduced(2), pods, [holder(2), holder(3)], NOW) == 4
    assert new_size(spec(), reduced(2), pods, [holder(2)], NOW) is None
    assert new_size(spec(), reduced(2), pods, [holder(2), stuck(3, age=5)], NOW) is None
    assert new_size(spec(), reduced(2), pods, [holder(2), stuck(3)], NOW) == 3
    assert new_size(spec(), reduced(2), pods, [stuck(2), stuck(3)], NOW) is None


def test_it_does_not_grow_while_a_replica_has_no_node() -> None:
    assert new_size(spec(), reduced(2), [pod(0), stuck(1, age=5)], [holder(2), holder(3)], NOW) is None


def test_places_are_looked_for_after_a_time() -> None:
    assert missing(spec(), reduced(3, age=299), NOW) == 0
    assert missing(spec(), reduced(3), NOW) == 1
    assert missing(spec(), status(0, 0, 0, 0), NOW) == 0


def test_the_status_says_how_many_and_why() -> None:
    pods = [pod(0), pod(1), pod(2), stuck(3)]
    after, event = resized(spec(), status(0, 0, 0, 0), pods, 3, NOW)
    assert after.reduced == Reduced(replicas=3, of=4, since=NOW, reason="replica 3: no room")
    assert (event.type, event.reason) == ("Warning", "Reduced")
    assert event.message.startswith("from 4 to 3 replicas")
    assert event.message.endswith("replica 3: no room")
    whole, event = resized(spec(), reduced(3), pods[:3], 4, NOW)
    assert (whole.reduced, event.type, event.reason) == (None, "Normal", "Grown")


def test_another_wanted_size_makes_it_start_anew() -> None:
    assert (size(spec(), reduced(3)), is_other(spec(), reduced(3))) == (3, False)
    for wanted in (spec(5), spec(3), spec(elastic=None), spec(elastic=ELASTIC | {"minReplicas": 4})):
        assert size(wanted, reduced(3)) == wanted.replicas
        assert is_other(wanted, reduced(3))
        assert settled(wanted, reduced(3)).reduced is None
    assert not is_other(spec(), status(0, 0, 0, 0))


@pytest.mark.parametrize(("replicas", "accumulation"), [(4, 3), (3, 4), (2, 6), (1, 12)])
def test_the_global_batch_stays(replicas: int, accumulation: int) -> None:
    trainer = {"rounds": 60, "data": {"paths": ["/data"]}, "batch": {"perRank": 2, "accumulation": 3}}
    told = at_size(spec(trainer=trainer), replicas)
    assert told.trainer is not None
    assert (told.replicas, told.trainer.batch.accumulation, told.trainer.batch.per_rank) == (replicas, accumulation, 2)


def test_a_batch_that_cannot_be_divided_is_rounded_up() -> None:
    told = at_size(spec(), 3)
    assert told.trainer is not None
    assert told.trainer.batch.accumulation == 2


def test_commands_are_told_the_size() -> None:
    assert at_size(spec(trainer=None, command=["train"]), 3).replicas == 3
