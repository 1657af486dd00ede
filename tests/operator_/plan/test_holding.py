from datetime import timedelta
from typing import Any

from operator_.plan.builders import NODES, NOW, ended, job, nodes, pod, spec_with, status
from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.api.status import Reduced, TrainingJobStatus
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan.holding import ENDED_KEPT, creations, deletes
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Pod, PodPhase
from ringtrain_operator.plan.result import DeletePod

RAW = spec_with(replicas=4, elastic={"minReplicas": 2, "growAfterSeconds": 300})
SPEC = parse("gpt", RAW)
JOB = job(RAW)
HEALTH = NodeHealth(NODES, 30, NOW)
PLACED = [pod(0), pod(1)]


def reduced(age: float = 300) -> TrainingJobStatus:
    small = Reduced(replicas=2, of=4, since=NOW - timedelta(seconds=age), reason="no room")
    return status(0, 3, reduced=small)


def holder(index: int, **fields: Any) -> Pod:
    given: dict[str, Any] = {"holding": True, "spec_generation": 1, "node": "node-2"}
    return pod(index, **(given | fields))


def created(pods: list[Pod], holders: list[Pod], of: TrainingJobStatus, spec: TrainingJobSpec = SPEC) -> list[str]:
    return [each.manifest["metadata"]["name"] for each in creations(JOB, spec, of, pods, holders, NOW)]


def deleted(pods: list[Pod], holders: list[Pod], of: TrainingJobStatus, spec: TrainingJobSpec = SPEC) -> list[str]:
    return [each.name for each in deletes(JOB, spec, of, pods, holders, HEALTH, NOW)]


def test_one_comes_for_each_missing_replica_when_it_is_time() -> None:
    pods = [pod(0), pod(1, 3)]
    assert created(pods, [], reduced()) == ["gpt-2-3", "gpt-3-3"]
    assert created(pods, [holder(2)], reduced()) == ["gpt-3-3"]
    assert created(pods, [], reduced(age=299)) == []
    assert created(pods, [], status(0, 3)) == []


def test_replicas_come_first() -> None:
    assert created([pod(0)], [], reduced()) == []
    assert created([pod(0), pod(1, 3, PodPhase.PENDING, node=None)], [], reduced()) == []


def test_a_replica_that_finds_no_node_is_given_a_place() -> None:
    waiting = [pod(0), pod(1, 3, PodPhase.PENDING, node=None, waiting_reason="Unschedulable")]
    assert deleted(waiting, [holder(2), holder(3)], reduced()) == ["gpt-2-0"]
    assert deleted(waiting, [holder(2, deleting=True), holder(3)], reduced()) == []
    assert deleted([pod(0), pod(1, 3)], [holder(2), holder(3)], reduced()) == []


def test_what_nobody_needs_goes() -> None:
    pods = [pod(0), pod(1, 3)]
    assert deleted(pods, [holder(2), holder(3)], reduced(age=10)) == ["gpt-2-0", "gpt-3-0"]
    assert deleted(pods, [holder(2, spec_generation=0), holder(4)], reduced()) == ["gpt-2-0", "gpt-4-0"]
    lost = NodeHealth(NODES | nodes("node-2", ready=False, age=60), 30, NOW)
    forced = deletes(JOB, SPEC, reduced(), pods, [holder(2, deleting=True)], lost, NOW)
    assert forced == (DeletePod("gpt-2-0", "uid-2-0", force=True),)


def test_one_that_ends_at_once_is_made_anew_only_now_and_then() -> None:
    young, old = (
        ended(2, holding=True, spec_generation=1, created=NOW - age) for age in (timedelta(seconds=1), ENDED_KEPT)
    )
    assert deleted(PLACED, [young], reduced()) == []
    assert created([pod(0), pod(1, 3)], [young], reduced()) == ["gpt-3-3"]
    assert deleted(PLACED, [old], reduced()) == ["gpt-2-0"]


def test_spares_come_when_all_replicas_have_a_node_and_give_it_to_one_that_finds_none() -> None:
    spec = parse("gpt", spec_with(replicas=2, spareReplicas=2))
    whole = [pod(0), pod(1, 3)]
    assert created(whole[:1], [], status(0, 3), spec) == []
    assert created(whole, [], status(0, 3), spec) == ["gpt-2-3", "gpt-3-3"]
    waiting = [pod(0), pod(1, 3, PodPhase.PENDING, node=None, waiting_reason="Unschedulable")]
    assert deleted(waiting, [holder(2, node=None, phase=PodPhase.PENDING), holder(3)], status(0, 3), spec) == [
        "gpt-3-0"
    ]
    assert created(waiting, [holder(2)], status(0, 3), spec) == []
    assert created(whole, [holder(2)], status(0, 3), spec) == ["gpt-3-3"]


def test_a_job_with_fewer_spares_gives_back_the_last() -> None:
    spec = parse("gpt", spec_with(replicas=2, spareReplicas=1))
    assert deleted(PLACED, [holder(2), holder(3)], status(0, 0), spec) == ["gpt-3-0"]


def test_a_reduced_job_has_no_spares() -> None:
    both = parse("gpt", RAW | {"spareReplicas": 1})
    assert created([pod(0), pod(1, 3)], [], reduced(age=10), both) == []
    assert created([pod(0), pod(1, 3)], [], reduced(), both) == ["gpt-2-3", "gpt-3-3"]
