from typing import Any

from ringtrain_operator.api.scheduling import Scheduling
from ringtrain_operator.plan.placement import kept_off, near

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OFF_A = {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}
OFF_B = {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}
ZONE = {"key": "zone", "operator": "In", "values": ["z"]}


def terms(pod_spec: dict[str, Any], *nodes: str) -> Any:
    return kept_off(pod_spec, nodes)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def affine(*alternatives: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(alternatives)}}}}


def test_without_nodes_nothing_is_added() -> None:
    assert kept_off({"hostname": "x"}, ()) == {"hostname": "x"}


def test_a_pod_without_affinity_gets_one_expression_for_each_node() -> None:
    assert terms({"hostname": "x"}, "a", "b") == [{"matchFields": [OFF_A, OFF_B]}]


def test_every_alternative_of_the_users_keeps_off() -> None:
    own = affine({"matchExpressions": [ZONE]}, {"matchFields": [OFF_B]})
    assert terms(own, "a") == [{"matchExpressions": [ZONE], "matchFields": [OFF_A]}, {"matchFields": [OFF_B, OFF_A]}]
    assert own == affine({"matchExpressions": [ZONE]}, {"matchFields": [OFF_B]})


def test_an_alternative_that_fits_no_node_does_not_begin_to() -> None:
    assert terms(affine({}, {"matchExpressions": [ZONE]}), "a")[0] == {}


def test_other_affinities_stay() -> None:
    own = {"affinity": {"podAntiAffinity": {"x": 1}, "nodeAffinity": {"preferred": 2}}}
    made = kept_off(own, ["a"])["affinity"]
    assert made["podAntiAffinity"] == {"x": 1}
    assert made["nodeAffinity"]["preferred"] == 2


def test_a_pod_that_names_its_node_is_left_alone() -> None:
    assert kept_off({"nodeName": "a"}, ["a"]) == {"nodeName": "a"}


LABELS = {"ringtrain.io/job": "gpt"}
IN_ZONE = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "zone"}


def test_without_a_topology_pods_go_anywhere() -> None:
    assert near({"hostname": "x"}, Scheduling(), LABELS) == {"hostname": "x"}


def test_pods_are_kept_together() -> None:
    preferred = near({"hostname": "x"}, Scheduling(topology_key="zone"), LABELS)
    assert preferred["affinity"] == {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": IN_ZONE}]}}
    required = near({}, Scheduling(topology_key="zone", topology_policy="Required"), LABELS)
    assert required["affinity"] == {"podAffinity": {REQUIRED: [IN_ZONE]}}


def test_the_users_own_affinities_stay() -> None:
    own: dict[str, Any] = {
        "affinity": {"podAffinity": {REQUIRED: [{"own": 1}], PREFERRED: [{"own": 2}]}, "nodeAffinity": {"x": 3}}
    }
    made = near(own, Scheduling(topology_key="zone", topology_policy="Required"), LABELS)["affinity"]
    assert made == {
        "podAffinity": {REQUIRED: [{"own": 1}, IN_ZONE], PREFERRED: [{"own": 2}]},
        "nodeAffinity": {"x": 3},
    }
    assert own["affinity"]["podAffinity"][REQUIRED] == [{"own": 1}]
