import pytest

from operator_.doctor.builders import facts
from ringtrain_operator.doctor.checks.crd import check
from ringtrain_operator.doctor.facts import Crd, Unknown
from ringtrain_operator.doctor.fields import known_fields
from ringtrain_operator.doctor.finding import Level

OURS = known_fields()


def crd(fields: frozenset[str] = OURS, served: tuple[str, ...] = ("v1alpha1",), established: bool = True) -> Crd:
    return Crd(served=served, established=established, fields=fields)


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (crd(), Level.OK, "v1alpha1"),
        (None, Level.FAIL, "knows no TrainingJobs"),
        (crd(served=("v1",)), Level.FAIL, "serves v1, and not v1alpha1"),
        (crd(served=()), Level.FAIL, "serves no version"),
        (crd(established=False), Level.FAIL, "not established"),
        (crd(OURS | {"spec.magic"}), Level.WARN, "does not know spec.magic"),
        (Unknown("may not read CRDs"), Level.UNKNOWN, "may not read CRDs"),
    ],
)
def test_the_crd_that_is_found(found: Crd | Unknown | None, level: Level, words: str) -> None:
    (finding,) = check(facts(crd=found))
    assert finding.level is level
    assert words in finding.text
    assert bool(finding.fix) == (level in (Level.FAIL, Level.WARN))


def test_of_missing_fields_the_outermost_are_named() -> None:
    old = frozenset(path for path in OURS if not path.startswith("spec.checkpoint"))
    (finding,) = check(facts(crd=crd(old)))
    assert finding.level is Level.FAIL
    assert finding.text.endswith("dropped: spec.checkpoint")


def test_many_missing_fields_are_counted() -> None:
    old = OURS - {path for path in OURS if path.count(".") == 1 and path.startswith("status")}
    (finding,) = check(facts(crd=crd(frozenset(old))))
    assert " more" in finding.text
