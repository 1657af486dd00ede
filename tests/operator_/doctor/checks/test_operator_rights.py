from operator_.doctor.builders import facts
from ringtrain_operator.doctor.checks.operator_rights import check
from ringtrain_operator.doctor.facts import Unknown
from ringtrain_operator.doctor.finding import Level
from ringtrain_operator.doctor.rights import NODES


def test_all_rights() -> None:
    (finding,) = check(facts())
    assert finding.level is Level.OK


def test_missing_rights_of_one_of_two() -> None:
    ok, wrong = check(facts(operator_denied={"a": (), "b": NODES[-2:]}))
    assert ok.level is Level.OK
    assert (wrong.level, wrong.text) == (Level.FAIL, "b may not list, watch nodes")


def test_without_an_operator_there_is_nothing_to_say() -> None:
    assert check(facts(operator_denied={})) == ()


def test_unknown() -> None:
    (finding,) = check(facts(operator_denied=Unknown("may not ask")))
    assert finding.level is Level.UNKNOWN
