from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from operator_.plan.builders import job, spec_with
from ringtrain_operator.api.validation import parse
from ringtrain_operator.plan import pods
from ringtrain_operator.plan.need import amounts, need_of, selects

MINE = {"ringtrain.io/job": "gpt"}


def container(restart: str | None = None, **resources: Any) -> dict[str, Any]:
    return {"resources": resources} | ({"restartPolicy": restart} if restart else {})


def pod(labels: Mapping[str, str] = MINE, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container()]} | spec}


def test_limits_stand_in_for_requests() -> None:
    both = container(limits={"nvidia.com/gpu": "4", "cpu": 2}, requests={"cpu": "500m"})
    assert need_of(pod(containers=[both, container(requests={"cpu": "1"})])).requests == {
        "nvidia.com/gpu": 4,
        "cpu": Fraction(3, 2),
        "pods": 1,
    }


def test_init_containers_run_one_by_one_beside_side_cars() -> None:
    cpu = [container(requests={"cpu": amount}) for amount in ("2", "5")]
    side_car = container("Always", requests={"cpu": "1"})
    last = container(requests={"cpu": "3"})
    assert need_of(pod(containers=[last], initContainers=cpu)).requests["cpu"] == 5
    assert need_of(pod(containers=[last], initContainers=[side_car, *cpu])).requests["cpu"] == 6
    assert need_of(pod(containers=[last], initContainers=[side_car, side_car])).requests["cpu"] == 5


def test_overhead_counts() -> None:
    assert need_of(pod(overhead={"memory": "1Ki"})).requests == {"memory": 1024, "pods": 1}


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["7", "8"], True),
        ("In", ["8"], False),
        ("NotIn", ["8"], True),
        ("NotIn", ["7"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["6"], True),
        ("Gt", ["7"], False),
        ("Lt", ["8"], True),
        ("Lt", ["no number"], False),
        ("Like", ["7"], False),
    ],
)
def test_expressions(operator: str, values: list[str], holds: bool) -> None:
    expression = {"key": "size", "operator": operator, "values": values}
    assert selects({"matchExpressions": [expression]}, {"size": "7"}) is holds


def test_labels_and_expressions_must_all_fit() -> None:
    wanted = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}
    assert selects(wanted, {"a": "1"})
    assert not selects(wanted, {"a": "2"})
    assert not selects(wanted, {"a": "1", "b": "2"})
    assert selects({}, {})


def test_only_affinities_to_pods_like_itself_count() -> None:
    def term(labels: Mapping[str, str], key: str) -> dict[str, Any]:
        return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    found = need_of(
        pod(
            affinity={
                "podAffinity": {required: [term(MINE, "rack"), term({"app": "other"}, "zone")]},
                "podAntiAffinity": {required: [term(MINE, "host"), {"topologyKey": "zone"}], preferred: [{}]},
            }
        )
    )
    assert found.together == {"rack"}
    assert found.apart == {"host"}


def test_a_replica_needs_what_its_spec_says() -> None:
    spec = spec_with(
        device="cuda",
        resources={"requests": {"cpu": "1"}},
        scheduling={"topologyKey": "rack", "topologyPolicy": "Required"},
        template={"spec": {"nodeSelector": {"gpu": "big"}, "tolerations": [{"operator": "Exists"}]}},
    )
    found = need_of(pods.pod(job(spec), parse("gpt", spec), 0, 0, ["bad"]))
    assert found.requests == amounts({"nvidia.com/gpu": "2", "cpu": "1", "pods": "1"})
    assert (found.node_selector, found.tolerations) == ({"gpu": "big"}, [{"operator": "Exists"}])
    assert found.together == {"rack"}
    assert found.node_terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}]},
    ]
