import pytest

from operator_.plan.builders import NODES, NOW, ended, job, members, nodes, pod
from ringtrain_operator.api.status import Member
from ringtrain_operator.plan import members as roll
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import PodPhase
from ringtrain_operator.plan.result import DeletePod, EndPod

HEALTH = NodeHealth(NODES, 30, NOW)
DEAD = NodeHealth(nodes("node-0", ready=False, age=60), 30, NOW)


def test_a_job_begins_with_one_member_for_each_replica() -> None:
    assert roll.first_members(2, 0) == (Member(index=0, epoch=0), Member(index=1, epoch=0))


def test_failures_name_the_members_whose_pods_failed() -> None:
    found = roll.failures(members(0, 0, 0), [pod(0), ended(1), pod(2)], job(), HEALTH, (), NOW)
    assert [(failure.replica, failure.pod) for failure in found] == [(1, "gpt-1-0")]


def test_only_members_that_failed_get_the_raised_epoch() -> None:
    found = roll.failures(members(0, 0), [pod(0), ended(1)], job(), HEALTH, (), NOW)
    assert roll.replaced(members(0, 0), found, 4) == (members(0)[0], Member(index=1, epoch=4))


def test_uids_are_noted_once() -> None:
    fresh = (Member(index=0, epoch=1), Member(index=1, epoch=1))
    assert roll.seen(fresh, [pod(0, 1), pod(0, 0), pod(1, 0)]) == (
        Member(index=0, epoch=1, pod_uid="uid-0-1"),
        Member(index=1, epoch=1),
    )
    assert roll.seen(members(0), [pod(0, uid="other")]) == members(0)


def test_a_member_without_a_pod_is_missing() -> None:
    assert roll.missing(members(1, 0), [pod(1)]) == [members(1)[0]]


@pytest.mark.parametrize("phase", [PodPhase.PENDING, PodPhase.RUNNING, PodPhase.UNKNOWN])
def test_a_live_predecessor_keeps_the_place(phase: PodPhase) -> None:
    assert roll.missing(members(1), [pod(0, 0, phase, deleting=True)]) == []


@pytest.mark.parametrize("code", [0, 1])
def test_an_ended_predecessor_does_not(code: int) -> None:
    assert roll.missing(members(1), [ended(0, 0, code)]) == [members(1)[0]]


def test_pods_of_other_epochs_are_deleted_and_members_are_not() -> None:
    deletes = roll.stale_deletes(members(1, 0), [pod(0, 0), pod(0, 1), pod(1, 0)], HEALTH)
    assert deletes == [DeletePod("gpt-0-0", "uid-0-0")]


def test_a_pod_that_is_being_deleted_is_waited_for() -> None:
    assert roll.stale_deletes(members(1), [pod(0, 0, deleting=True)], HEALTH) == []


@pytest.mark.parametrize("deleting", [True, False])
def test_on_a_lost_node_force_is_used(deleting: bool) -> None:
    deletes = roll.stale_deletes(members(1), [pod(0, 0, deleting=deleting)], DEAD)
    assert deletes == [DeletePod("gpt-0-0", "uid-0-0", force=True)]


def test_the_newest_ended_pod_of_each_replica_is_kept_for_its_log() -> None:
    shown = [ended(0, 2), ended(0, 0), ended(0, 1), ended(1, 0), pod(0, 3), pod(1, 3)]
    deletes = roll.stale_deletes(members(3, 3), shown, HEALTH)
    assert sorted(delete.name for delete in deletes) == ["gpt-0-0", "gpt-0-1"]


def test_a_pod_of_no_replica_is_deleted() -> None:
    assert roll.stale_deletes(members(0), [pod(0), pod(7, node="node-1")], HEALTH) == [DeletePod("gpt-7-0", "uid-7-0")]


def test_where_only_side_cars_run_the_pod_is_kept_for_its_log() -> None:
    shown = [pod(0, 0, exit_code=70), pod(0, 1)]
    assert roll.stale_deletes(members(1), shown, HEALTH) == [EndPod("gpt-0-0", "uid-0-0")]
    assert roll.missing(members(1), shown[:1]) == []
    assert roll.delete(pod(0, exit_code=70, deleting=True), HEALTH) is None
    assert roll.delete(pod(0, exit_code=70), DEAD) == DeletePod("gpt-0-0", "uid-0-0", force=True)
