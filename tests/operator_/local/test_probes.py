import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain_operator.local.probes import Probe, Verdict

PROBE = Probe(path="/livez", port=8470, failure_threshold=3, success_threshold=2)


def after(results: list[bool], *, passing: bool) -> Verdict:
    verdict = Verdict(passing=passing)
    for result in results:
        verdict = verdict.after(result, PROBE)
    return verdict


@pytest.mark.parametrize(
    ("start", "results", "end"),
    [
        (True, [], True),
        (True, [False, False], True),
        (True, [False, False, False], False),
        (True, [False, False, True, False, False], True),
        (True, [False, False, True, False, False, False], False),
        (False, [True], False),
        (False, [True, True], True),
        (False, [True, False, True], False),
        (True, [False, False, False, True, True], True),
    ],
)
def test_a_verdict_turns_at_its_threshold(start: bool, results: list[bool], end: bool) -> None:
    assert after(results, passing=start).passing is end


@given(st.lists(st.booleans(), max_size=30))
def test_a_probe_that_never_fails_three_times_in_a_row_stays_passing(results: list[bool]) -> None:
    text = "".join("+" if result else "-" for result in results)
    verdict = Verdict(passing=True)
    seen_failing = False
    for result in results:
        verdict = verdict.after(result, PROBE)
        seen_failing = seen_failing or not verdict.passing
    assert seen_failing == ("---" in text)


def test_manifest_is_read_with_kubernetes_defaults() -> None:
    container = {
        "ports": [{"name": "agent", "containerPort": 8470}],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "agent"}, "periodSeconds": 5, "failureThreshold": 2},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8470}},
    }
    assert Probe.of(container, "livenessProbe") == Probe(path="/livez", port=8470, period=5, failure_threshold=2)
    assert Probe.of(container, "readinessProbe") == Probe(path="/readyz", port=8470)
    assert Probe.of({}, "livenessProbe") is None


@pytest.mark.parametrize(
    "probe",
    [{"exec": {"command": ["true"]}}, {"httpGet": {"path": "/livez", "port": "nowhere"}}],
)
def test_what_cannot_be_probed_here_is_refused(probe: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"probe|port"):
        Probe.of({"livenessProbe": probe}, "livenessProbe")
