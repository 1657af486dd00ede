import pytest

from operator_.doctor.builders import facts, job
from ringtrain_operator.doctor.checks.dns import check
from ringtrain_operator.doctor.facts import Dns, Unknown
from ringtrain_operator.doctor.finding import Level


@pytest.mark.parametrize(
    ("dns", "level", "words"),
    [
        (Dns(services={"kube-system/kube-dns": 2}), Level.OK, "(2 addresses) is ready"),
        (Dns(services={"kube-system/a": 0, "kube-system/b": 1}), Level.OK, "kube-system/b"),
        (Dns(services={"kube-system/kube-dns": 0}), Level.FAIL, "no ready address"),
        (Dns(services={}), Level.WARN, "no cluster DNS was found"),
        (Unknown("may not list services"), Level.UNKNOWN, "may not list services"),
    ],
)
def test_what_is_found(dns: Dns | Unknown, level: Level, words: str) -> None:
    (finding,) = check(facts(dns=dns))
    assert finding.level is level
    assert words in finding.text


@pytest.mark.parametrize(("replicas", "level"), [(2, Level.OK), (1, Level.WARN)])
def test_replicas_that_have_found_each_other(replicas: int, level: Level) -> None:
    running = job(status={"phase": "Running", "replicas": replicas})
    (finding,) = check(facts(dns=Dns(services={}), jobs=(running,)))
    assert finding.level is level
