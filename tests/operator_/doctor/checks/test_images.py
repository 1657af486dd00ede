from operator_.doctor.builders import facts
from ringtrain_operator.doctor.checks.images import check
from ringtrain_operator.doctor.facts import Unknown, WaitingPod
from ringtrain_operator.doctor.finding import Level


def waiting(name: str, reason: str) -> WaitingPod:
    return WaitingPod(job="gpt", name=name, image="wrong:1", reason=reason, message="no such image")


def test_an_image_is_named_once() -> None:
    pods = (waiting("gpt-0-0", "ErrImagePull"), waiting("gpt-1-0", "ImagePullBackOff"))
    (finding,) = check(facts(waiting=pods))
    assert finding.level is Level.FAIL
    assert finding.text.startswith("image wrong:1 of job gpt cannot be pulled: gpt-")
    assert finding.text.endswith("no such image")


def test_pods_that_wait_for_something_else() -> None:
    assert check(facts(waiting=(waiting("gpt-0-0", "Unschedulable"),))) == ()


def test_unknown() -> None:
    (finding,) = check(facts(waiting=Unknown("may not list pods")))
    assert finding.level is Level.UNKNOWN
