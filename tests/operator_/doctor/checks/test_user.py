from operator_.doctor.builders import facts
from ringtrain_operator.doctor.checks.user import check
from ringtrain_operator.doctor.finding import Level
from ringtrain_operator.doctor.rights import USER, Right


def test_all_rights() -> None:
    (finding,) = check(facts())
    assert (finding.level, finding.fix) == (Level.OK, "")


def test_no_right_to_make_jobs() -> None:
    denied = tuple(right for right in USER if right.resource == "trainingjobs" and right.verb != "get")
    (finding,) = check(facts(denied=denied))
    assert finding.level is Level.FAIL
    assert finding.text.endswith("you may not list, create, update, patch, delete trainingjobs.ringtrain.io")
    assert "kubectl create rolebinding ringtrain-users -n team" in finding.fix


def test_agents_that_cannot_be_asked_are_no_obstacle() -> None:
    (finding,) = check(facts(denied=(Right("", "pods/proxy", "get"),)))
    assert finding.level is Level.WARN
    assert "ringtrain top" in finding.text
