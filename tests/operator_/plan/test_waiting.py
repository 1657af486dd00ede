from operator_.plan.builders import pod
from ringtrain_operator.plan.observed import Pod, PodPhase
from ringtrain_operator.plan.waiting import causes, name


def waits(index: int, reason: str, message: str) -> Pod:
    return pod(index, phase=PodPhase.PENDING, node=None, waiting_reason=reason, waiting_message=message)


def test_one_cause_is_said_once() -> None:
    message = "0/3 nodes are available: 3 Insufficient example.com/gpu."
    text = causes([waits(index, "Unschedulable", message) for index in (2, 0, 1)])
    assert text.startswith(f"replicas 0-2: {message.rstrip('.')}; ")


def test_each_cause_names_its_replicas() -> None:
    text = causes([waits(0, "Unschedulable", "no room"), waits(1, "Held", 'by "x"')])
    assert text == 'replica 0: no room; replica 1: Held: by "x"'


def test_pods_that_start_as_they_should_wait_for_nothing() -> None:
    assert causes([pod(0), waits(1, "ContainerCreating", ""), waits(2, "", "")]) == ""


def test_a_reason_without_words_stands_alone() -> None:
    assert causes([waits(0, "SchedulingGated", "")]) == "replica 0: SchedulingGated"


def test_a_long_cause_is_cut() -> None:
    assert len(causes([waits(0, "Unschedulable", "word " * 1000)])) < 450


def test_replicas_are_named_by_runs() -> None:
    assert name([3]) == "replica 3"
    assert name([0, 1, 2, 5, 7, 8]) == "replicas 0-2, 5, 7-8"
