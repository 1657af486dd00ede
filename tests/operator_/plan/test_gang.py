from dataclasses import replace
from datetime import timedelta
from typing import Any

from operator_.plan.builders import NODES, NOW, job, pod, spec_with, status
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.conditions import SCHEDULABLE, find
from ringtrain_operator.plan.gang import HALF_KEPT
from ringtrain_operator.plan.need import amounts
from ringtrain_operator.plan.observed import Job, Observed, Pod, PodPhase
from ringtrain_operator.plan.plan import plan
from ringtrain_operator.plan.result import Plan
from ringtrain_operator.plan.room import Place, Room

LATER = NOW + timedelta(seconds=60)
GANG: dict[str, Any] = {
    "scheduling": {"gang": "Operator"},
    "resources": {"limits": {"cpu": "1"}},
    "elastic": None,
}
ELASTIC = {"minReplicas": 2, "waitSeconds": 60, "growAfterSeconds": 300}


def gang(of: TrainingJobStatus | None = None, **fields: Any) -> Job:
    return job(spec_with(**GANG | fields), of)


def observed(*pods: Pod, cpus: int | None = None) -> Observed:
    """Nodes of one CPU each, as many as `cpus`."""
    seen = Observed(pods=pods, nodes=NODES, service_exists=True, claim_exists=True)
    if cpus is None:
        return seen
    places = (Place(name=f"free-{index}", free=amounts({"cpu": 1, "pods": 9})) for index in range(cpus))
    return replace(seen, room=Room(places=tuple(places)))


def made(of: Plan) -> list[str]:
    return [create.manifest["metadata"]["name"] for create in of.creates if create.manifest["kind"] == "Pod"]


def condition(of: Plan) -> tuple[str, str]:
    found = find(of.status, SCHEDULABLE)
    return (found.status, found.reason) if found is not None else ("", "")


def unplaced(index: int, age: timedelta = HALF_KEPT) -> Pod:
    waits: dict[str, Any] = {"node": None, "waiting_reason": "Unschedulable", "waiting_message": "Insufficient cpu"}
    return pod(index, phase=PodPhase.PENDING, created=NOW - age, **waits)


def test_nothing_is_decided_before_somebody_has_looked() -> None:
    first = plan(gang(), observed(), NOW)
    assert first == Plan(status=TrainingJobStatus(), wants_room=True)
    lost = plan(gang(status(0, 0, 0)), observed(pod(0), pod(1)), NOW)
    assert lost == Plan(status=status(0, 0, 0), wants_room=True)


def test_room_is_looked_for_only_where_pods_may_be_created() -> None:
    assert not plan(gang(status(0, 0, 0)), observed(pod(0), pod(1), pod(2)), NOW).wants_room
    assert not plan(job(), observed(), NOW).wants_room
    assert not plan(gang(suspend=True), observed(), NOW).wants_room


def test_all_are_created_when_all_fit() -> None:
    begun = plan(gang(), observed(cpus=3), NOW)
    assert made(begun) == ["gpt-0-0", "gpt-1-0", "gpt-2-0"]
    assert condition(begun) == ("True", "RoomFound")


def test_none_is_created_while_one_does_not_fit() -> None:
    held = plan(gang(), observed(cpus=2), NOW)
    assert (held.creates, held.status.members, held.status.start_time) == ((), (), None)
    assert (held.status.phase, condition(held)) == (JobPhase.PENDING, ("False", "NoRoom"))
    assert "3 pods need 3 cpu, and 2 cpu are free" in held.status.message
    assert [event.reason for event in held.events] == ["NoRoom"]
    assert held.requeue_after == 5


def test_it_is_told_once() -> None:
    held = plan(gang(), observed(cpus=2), NOW)
    again = plan(gang(held.status), observed(cpus=1), LATER)
    assert again.events == ()
    assert "1 cpu are free" in again.status.message


def test_the_pending_deadline_ends_the_wait() -> None:
    held = plan(gang(pendingDeadlineSeconds=60), observed(cpus=2), NOW)
    over = plan(gang(held.status, pendingDeadlineSeconds=60), observed(cpus=2), LATER)
    assert (over.status.phase, over.events[-1].reason) == (JobPhase.FAILED, "PendingDeadlineExceeded")
    assert "3 pods need 3 cpu" in over.status.message


def test_where_nothing_can_be_seen_the_status_says_so() -> None:
    held = plan(gang(), replace(observed(), room=Room(hidden="no right to list nodes")), NOW)
    assert (held.creates, condition(held)) == ((), ("False", "RoomUnknown"))
    assert held.status.message == "no right to list nodes"


def test_replacements_are_created_together_or_not_at_all() -> None:
    lost = gang(status(0, 0, 0))
    held = plan(lost, observed(pod(0), cpus=1), NOW)
    assert (made(held), held.status.phase) == ([], JobPhase.RESTARTING)
    assert (
        "waiting for replicas 1-2 to be created: waiting for room for all at once: 2 pods need" in held.status.message
    )
    assert made(plan(lost, observed(pod(0), cpus=2), NOW)) == ["gpt-1-1", "gpt-2-1"]


def test_what_is_no_pod_is_created_all_the_same() -> None:
    held = plan(gang(status(0, 0, 0)), replace(observed(pod(0), cpus=1), service_exists=False), NOW)
    assert [create.manifest["kind"] for create in held.creates] == ["Service"]


def test_an_elastic_job_begins_with_those_that_fit_after_a_while() -> None:
    held = plan(gang(elastic=ELASTIC), observed(cpus=2), NOW)
    assert held.creates == ()
    begun = plan(gang(held.status, elastic=ELASTIC), observed(cpus=2), LATER)
    assert made(begun) == ["gpt-0-0", "gpt-1-0"]
    assert begun.status.reduced is not None
    assert (begun.status.reduced.replicas, begun.status.reduced.of) == (2, 3)
    assert [event.reason for event in begun.events] == ["Reduced", "Started"]


def test_an_elastic_job_of_too_few_waits_on() -> None:
    held = plan(gang(elastic=ELASTIC), observed(cpus=1), NOW)
    assert plan(gang(held.status, elastic=ELASTIC), observed(cpus=1), LATER).creates == ()


def test_an_elastic_job_goes_on_without_replacements_that_do_not_fit() -> None:
    lost = plan(gang(status(0, 0, 0), elastic=ELASTIC), observed(pod(0), cpus=1), NOW)
    assert lost.status.members
    smaller = plan(gang(lost.status, elastic=ELASTIC), observed(pod(0), cpus=1), LATER)
    assert (smaller.status.members, smaller.events[-1].reason) == ((), "Reduced")
    assert smaller.status.reduced is not None
    assert smaller.status.reduced.replicas == 2
    assert "2 pods need 2 cpu" in smaller.status.reduced.reason


def test_what_has_just_failed_is_persisted_before_the_job_gets_smaller() -> None:
    waits = gang(status(0, 0, 0, pending_since=NOW), elastic=ELASTIC)
    first_lost = plan(waits, observed(pod(0), cpus=1), LATER)
    assert (first_lost.status.epoch, len(first_lost.status.members)) == (1, 3)


def test_first_pods_that_did_not_all_find_a_node_give_theirs_back() -> None:
    half, old = gang(status(0, 0, 0, phase=JobPhase.PENDING)), pod(0, created=NOW - HALF_KEPT)
    broken = plan(half, observed(old, unplaced(1), unplaced(2)), NOW)
    assert (broken.status.members, broken.events[-1].reason) == ((), "GangBroken")
    assert plan(half, observed(old, unplaced(1), unplaced(2, HALF_KEPT / 2)), NOW).status.members
    assert plan(half, observed(unplaced(0), unplaced(1), unplaced(2)), NOW).status.members


def test_an_operator_that_died_halfway_leaves_no_half() -> None:
    old = pod(0, created=NOW - HALF_KEPT)
    broken = plan(gang(status(0, 0, 0, phase=JobPhase.PENDING, members=first(3))), observed(old, cpus=1), NOW)
    assert (broken.status.members, broken.events[-1].reason) == ((), "GangBroken")


def test_a_replacement_without_a_node_costs_the_others_nothing() -> None:
    pods = (pod(0), pod(1), replace(unplaced(2), name="gpt-2-1", uid="uid-2-1", epoch=1))
    assert plan(gang(status(0, 0, 1)), observed(*pods), NOW).status.members


def test_an_elastic_job_with_enough_nodes_is_not_broken() -> None:
    pods = (pod(0), pod(1), unplaced(2))
    kept = plan(gang(status(0, 0, 0), elastic=ELASTIC | {"waitSeconds": 600}), observed(*pods), NOW)
    assert kept.status.members


def first(replicas: int) -> Any:
    """Members whose pods were not seen yet."""
    return tuple(member.model_copy(update={"pod_uid": None}) for member in status(*[0] * replicas).members)
