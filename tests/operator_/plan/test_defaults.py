import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operator_.api.spec_table import CLAIM, GOOD, VOLUME, Good, container, spec, template
from operator_.api.test_validation import JSON, changed
from operator_.plan.builders import job, status
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan.defaults import JobDefaults, defaults_of, inherited, inherited_by, merged, with_defaults

EVERYTHING: dict[str, Any] = {
    "image": "trainer:default",
    "imagePullPolicy": "Always",
    "activeDeadlineSeconds": 7200,
    "ttlSecondsAfterFinished": 600,
    "cleanPodPolicy": "All",
    "shmSize": "1Gi",
    "resources": {"requests": {"ephemeral-storage": "1Gi"}},
    "communication": {"codec": "int4", "block": 32, "warmupRounds": 7},
    "checkpoint": {
        "every": 9,
        "volume": {"claimTemplate": {"storageClassName": "fast", "accessModes": ["ReadWriteMany"]}},
    },
    "faultTolerance": {"maxRestarts": 3, "timeouts": {"training": 50}},
    "scheduling": {"topologyKey": "rack"},
    "template": {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "trainer", "env": [{"name": "PROXY", "value": "p"}]}],
        },
    },
}


@pytest.mark.parametrize(
    ("below", "above", "result"),
    [
        ({"image": "a"}, {}, {"image": "a"}),
        ({"image": "a"}, {"image": "b"}, {"image": "b"}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": [2]}, {"a": [2]}),
        # What stands by itself in a PodSpec.
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "valueFrom": {}}, {"name": "C", "value": "3"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}, {"name": "C", "value": "3"}]},
        ),
        (
            {"containers": [{"name": "trainer", "tty": True}]},
            {"containers": [{"name": "trainer", "stdin": True}, {"name": "logs"}]},
            {"containers": [{"name": "trainer", "tty": True, "stdin": True}, {"name": "logs"}]},
        ),
        ({"env": [{"name": "A"}]}, {"env": []}, {"env": []}),
        ({"env": [{"name": "A"}]}, {"env": [{"name": "B"}, {"name": "B"}]}, {"env": [{"name": "B"}, {"name": "B"}]}),
        # What belongs to a choice goes with it.
        (
            {"communication": {"codec": "zfp", "rate": 4, "overlap": False}},
            {"communication": {"codec": "none"}},
            {"communication": {"codec": "none", "overlap": False}},
        ),
        (
            {"communication": {"rate": 4}},
            {"communication": {"codec": "zfp"}},
            {"communication": {"codec": "zfp", "rate": 4}},
        ),
        (
            {"communication": {"codec": "zfp", "rate": 4}},
            {"communication": {"rate": 8}},
            {"communication": {"codec": "zfp", "rate": 8}},
        ),
        (
            {"communication": {"codec": "int4", "block": 32}},
            {"communication": {"codec": None}},
            {"communication": {"codec": None}},
        ),
        (
            {"scheduling": {"gang": "Kueue", "queueName": "a"}},
            {"scheduling": {"gang": "Operator"}},
            {"scheduling": {"gang": "Operator"}},
        ),
    ],
)
def test_what_says_more_stands_over_the_rest(below: Any, above: Any, result: Any) -> None:
    before = deepcopy((below, above))
    assert merged(below, above) == result
    assert (below, above) == before


def test_a_job_inherits_what_it_does_not_say() -> None:
    found = parse("job", with_defaults({"command": ["train"], "checkpoint": CLAIM, "shmSize": "4Gi"}, EVERYTHING))
    assert (found.image, found.shm_size) == ("trainer:default", "4Gi")
    assert (found.communication.codec, found.communication.block) == ("int4", 32)
    assert found.checkpoint is not None
    assert found.checkpoint.every == 9
    assert found.checkpoint.volume.claim_template is not None
    assert found.checkpoint.volume.claim_template.storage_class_name == "fast"
    assert (found.fault_tolerance.max_restarts, found.fault_tolerance.timeouts.training) == (3, 50)


def test_a_job_without_checkpoints_goes_without() -> None:
    assert "checkpoint" not in with_defaults(spec(), EVERYTHING)
    claimed = with_defaults(spec(checkpoint=VOLUME), EVERYTHING)
    assert claimed["checkpoint"] == VOLUME | {"every": 9}


def test_what_the_template_takes_back_is_taken_back_from_the_pod_too() -> None:
    found = with_defaults(
        template(securityContext={"runAsUser": None}), {"template": {"spec": {"securityContext": {"runAsUser": 7}}}}
    )
    assert found["template"]["spec"]["securityContext"] == {"runAsUser": None}


def test_a_variable_of_the_jobs_joins_those_of_the_defaults() -> None:
    found = with_defaults(container(env=[{"name": "MINE", "value": "1"}]), EVERYTHING)
    (trainer,) = found["template"]["spec"]["containers"]
    assert [each["name"] for each in trainer["env"]] == ["PROXY", "MINE"]
    assert found["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


def stands_in(said: Any, whole: Any) -> bool:
    """All that is said is there as it was said; lists may have more."""
    if isinstance(said, dict) and isinstance(whole, dict):
        return all(name in whole and stands_in(value, whole[name]) for name, value in said.items())
    if isinstance(said, list) and isinstance(whole, list):
        return all(any(stands_in(entry, other) for other in whole) for entry in said)
    return bool(said == whole)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.title)
def test_whatever_a_job_says_stands(case: Good) -> None:
    assert stands_in(case.spec, with_defaults(case.spec, EVERYTHING))


@settings(deadline=None)
@given(st.data(), st.sampled_from(GOOD), JSON)
def test_what_is_wrong_with_a_spec_is_left_to_the_validation(data: st.DataObject, case: Good, value: object) -> None:
    try:
        parse(case.name, with_defaults(changed(data, case.spec, value), EVERYTHING))
    except InvalidSpec:
        return


def test_no_spec_at_all_is_left_to_the_validation() -> None:
    assert with_defaults([], EVERYTHING) == []  # type: ignore[comparison-overlap,arg-type]


def test_those_of_the_namespace_precede_those_of_the_cluster() -> None:
    raw = {
        "cluster": {"image": "a", "shmSize": "1Gi"},
        "namespaces": {"team": {"image": "b"}, "other": {"shmSize": None}},
    }
    found = JobDefaults.checked(raw)
    assert found.of("team") == {"image": "b", "shmSize": "1Gi"}
    assert found.of("default") == {"image": "a", "shmSize": "1Gi"}
    assert parse("job", with_defaults({"command": ["a"]}, found.of("other"))).shm_size == "2Gi"


@pytest.mark.parametrize("raw", [{}, {"cluster": None, "namespaces": {"a": None}}, {"cluster": EVERYTHING}])
def test_good_ones(raw: Any) -> None:
    assert JobDefaults.checked(raw).of("a") == (raw.get("cluster") or {})


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ([], "jobDefaults: must be a mapping of `cluster` and `namespaces`"),
        ({"image": "a"}, "jobDefaults: must be a mapping"),
        ({"cluster": "a"}, "jobDefaults.cluster: must be a mapping of fields"),
        ({"namespaces": ["a"]}, "jobDefaults.namespaces: must be a mapping"),
        ({"namespaces": {"team": "a"}}, "jobDefaults.namespaces.team: must be a mapping of fields"),
        ({"cluster": {"replicas": 2}}, "jobDefaults.cluster.replicas: can have no default; these can: activeDeadline"),
        ({"cluster": {"imagee": "a"}}, "jobDefaults.cluster.imagee: can have no default; these can: "),
        (
            {"cluster": {"checkpoint": {"volume": {"claimName": "a"}}}},
            "jobDefaults.cluster.checkpoint.volume.claimName: can have no default; these can: claimTemplate",
        ),
        (
            {"cluster": {"faultTolerance": {"preflight": {}}}},
            "jobDefaults.cluster.faultTolerance.preflight: can have no default",
        ),
        ({"namespaces": {"team": {"image": ""}}}, "jobDefaults.namespaces.team.image: must not be empty"),
        ({"namespaces": {"team-a": {"image": 3}}}, "jobDefaults.namespaces[team-a].image: must be a string, not 3"),
        (
            {"cluster": {"communication": {"codecc": "zfp"}}},
            "jobDefaults.cluster.communication.codecc: unknown field: did you mean codec?",
        ),
        (
            {"cluster": {"communication": {"codec": "none", "rate": 5}}},
            "jobDefaults.cluster.communication: rate is of codec zfp only",
        ),
        (
            {"cluster": {"communication": {"codec": "none"}}, "namespaces": {"team": {"communication": {"rate": 5}}}},
            "jobDefaults.namespaces.team.communication: rate is of codec zfp only",
        ),
        (
            {"cluster": {"template": {"spec": {"hostNetwork": True}}}},
            "jobDefaults.cluster.template.spec.hostNetwork: remove it",
        ),
        ({"cluster": {"shmSize": float("nan")}}, "jobDefaults.cluster.shmSize: is nan"),
    ],
)
def test_a_bad_one_is_named(raw: Any, error: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        JobDefaults.checked(raw)
    (found,) = caught.value.errors
    assert found.startswith(error)


def test_a_job_keeps_those_that_it_began_with() -> None:
    new = job(defaults={"image": "a"})
    assert defaults_of(new) == {"image": "a"}
    begun = status(0, started_with="{}", inherited=inherited(new))
    assert json.loads(begun.inherited) == inherited_by(begun) == {"image": "a"}
    later = job(status=begun, defaults={"image": "b"})
    assert defaults_of(later) == {"image": "a"}
    assert inherited(later) == begun.inherited


def test_a_job_that_began_without_goes_on_without() -> None:
    begun = status(0, started_with="{}")
    assert defaults_of(job(status=begun, defaults={"image": "b"})) == {}
    assert (inherited(job()), inherited_by(begun)) == ("", {})
