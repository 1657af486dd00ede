import pytest

from operator_.doctor.builders import SHARED, facts
from ringtrain_operator.doctor.checks.storage import check
from ringtrain_operator.doctor.facts import StorageClass, Unknown, Volume
from ringtrain_operator.doctor.finding import Level

STATIC = StorageClass(name="static", provisioner="kubernetes.io/no-provisioner", is_default=False)
DISKS = StorageClass(name="disks", provisioner="ebs.csi.aws.com", is_default=True)
OWN = StorageClass(name="own", provisioner="example.org/files", is_default=True)


def volume(storage_class: str, mode: str = "ReadWriteMany", is_free: bool = True) -> Volume:
    return Volume(storage_class=storage_class, modes=(mode,), is_free=is_free)


@pytest.mark.parametrize(
    ("classes", "volumes", "level", "words"),
    [
        ((SHARED,), (), Level.OK, "ReadWriteMany volumes: shared"),
        ((), (), Level.FAIL, "there is none"),
        ((DISKS,), (), Level.FAIL, "disks (ebs.csi.aws.com)"),
        ((DISKS,), (volume("disks", "ReadWriteOnce"),), Level.FAIL, "no storage class gives"),
        ((OWN,), (), Level.WARN, "own (example.org/files)"),
        ((OWN,), (volume("own", is_free=False),), Level.OK, "own"),
        ((STATIC,), (), Level.FAIL, "static"),
        ((STATIC,), (volume("static", is_free=False),), Level.FAIL, "static"),
        ((STATIC,), (volume("static"),), Level.OK, "static"),
        ((), (volume(""),), Level.OK, "storageClassName to an empty string"),
    ],
)
def test_classes(classes: tuple[StorageClass, ...], volumes: tuple[Volume, ...], level: Level, words: str) -> None:
    (finding,) = check(facts(classes=classes, volumes=volumes))
    assert finding.level is level
    assert words in finding.text


def test_a_default_class_that_does_not_fit() -> None:
    shared = StorageClass(name="files", provisioner="efs.csi.aws.com", is_default=False)
    (finding,) = check(facts(classes=(DISKS, shared)))
    assert finding.level is Level.WARN
    assert finding.fix.endswith("storageClassName: files")


def test_classes_without_their_volumes() -> None:
    (finding,) = check(facts(classes=(SHARED,), volumes=Unknown("may not list volumes")))
    assert finding.level is Level.OK


def test_unknown() -> None:
    (finding,) = check(facts(classes=Unknown("may not list classes")))
    assert finding.level is Level.UNKNOWN
