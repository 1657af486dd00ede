from operator_.plan.builders import NOW, status
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.plan.conditions import RUNNING, SUSPENDED, find
from ringtrain_operator.plan.suspension import resumed, suspended


def truth(of: TrainingJobStatus, kind: str) -> tuple[str, str]:
    condition = find(of, kind)
    assert condition is not None
    return condition.status, condition.reason


def test_a_job_is_suspended_once_its_pods_have_ended() -> None:
    first, (event,) = suspended(status(), "replicas 0, 2 must save and end first", NOW)
    assert (first.phase, event.reason) == (JobPhase.SUSPENDING, "Suspending")
    assert first.message == "replicas 0, 2 must save and end first"
    assert truth(first, SUSPENDED) == ("False", "Suspending")
    assert truth(first, RUNNING) == ("False", "Suspending")
    second, events = suspended(first, "replica 2 must save and end first", NOW)
    assert (second.message, events) == ("replica 2 must save and end first", ())
    last, (event,) = suspended(second, "", NOW)
    assert (last.phase, event.reason, truth(last, SUSPENDED)) == (
        JobPhase.SUSPENDED,
        "Suspended",
        ("True", "Suspended"),
    )
    assert suspended(last, "", NOW) == (last, ())


def test_a_job_is_resumed_once() -> None:
    resting, _ = suspended(status(), "", NOW)
    again, (event,) = resumed(resting, NOW)
    assert (again.phase, event.reason, truth(again, SUSPENDED)) == (JobPhase.PENDING, "Resumed", ("False", "Resumed"))
    assert resumed(again, NOW) == (again, ())


def test_a_job_that_never_was_suspended_has_no_word_of_it() -> None:
    assert resumed(status(), NOW) == (status(), ())
