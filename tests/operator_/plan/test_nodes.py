from operator_.plan.builders import NOW, nodes, pod
from ringtrain_operator.plan.nodes import NodeHealth
from ringtrain_operator.plan.observed import Node


def health(shown: dict[str, Node]) -> NodeHealth:
    return NodeHealth(shown, 30, NOW)


def test_a_ready_node_is_not_in_doubt() -> None:
    ready = health(nodes("node-0"))
    assert not ready.is_in_doubt(pod(0))
    assert not ready.is_lost(pod(0))


def test_a_node_is_in_doubt_until_it_was_not_ready_for_long_enough() -> None:
    doubtful = health(nodes("node-0", ready=False, age=29))
    assert doubtful.is_in_doubt(pod(0))
    assert not doubtful.is_lost(pod(0))
    assert doubtful.seconds_left(pod(0)) == 1
    assert health(nodes("node-0", ready=False, age=30)).is_lost(pod(0))


def test_a_node_that_does_not_exist_any_more_is_lost() -> None:
    assert health({}).is_lost(pod(0))


def test_a_pod_that_is_not_scheduled_has_no_node_to_lose() -> None:
    assert not health({}).is_lost(pod(0, node=None))
