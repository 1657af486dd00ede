from operator_.plan.builders import NODES, NOW, ended, nodes, pod, status
from ringtrain_operator.api.status import Incident, TrainingJobStatus
from ringtrain_operator.plan.disband import deletes, disbanded, leftovers, waited_for
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.result import DeletePod

HEALTH = NodeHealth(NODES, 30, NOW)
ALL = [pod(0), pod(1, 2), pod(2)]


def test_nobody_stands_for_a_replica_and_the_epoch_is_raised() -> None:
    after = disbanded(status(0, 2, 0, ready=3, restarts=1, incident=Incident(generation="2.0", failed=("rank 1",))))
    assert (after.members, after.epoch, after.ready, after.restarts) == ((), 3, 0, 1)
    # What fails after it has another cause.
    assert after.incident is None


def test_all_live_pods_go_and_are_waited_for() -> None:
    after = disbanded(status(0, 2, 0))
    assert [delete.name for delete in deletes(after, ALL, HEALTH)] == ["gpt-0-0", "gpt-1-2", "gpt-2-0"]
    going = [pod(0, deleting=True), ended(1, 2), pod(2, deleting=True)]
    assert deletes(after, going, HEALTH) == ()
    assert waited_for(leftovers(after, going)) == "replicas 0, 2 must save and end first"
    assert leftovers(after, [ended(1, 2)]) == []
    assert waited_for([]) == ""


def test_a_pod_on_a_lost_node_is_not_waited_for() -> None:
    health = NodeHealth(NODES | nodes("node-0", ready=False, age=60), 30, NOW)
    assert deletes(disbanded(status(0)), [pod(0, deleting=True)], health) == (
        DeletePod("gpt-0-0", "uid-0-0", force=True),
    )


def test_pods_that_a_lost_status_does_not_know_are_taken_back() -> None:
    lost = TrainingJobStatus(epoch=2)
    assert leftovers(lost, ALL) == []
    assert deletes(lost, ALL, HEALTH) == ()
