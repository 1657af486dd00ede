from collections.abc import Mapping
from typing import Any

import pytest

from ringtrain_operator.plan.need import Need, amounts
from ringtrain_operator.plan.room import Place, Room, fitting, room, shortage

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def need(gpus: int = 4, **fields: Any) -> Need:
    return Need(requests=amounts({"gpu": gpus, "pods": 1}), **fields)


def place(name: str, gpus: int = 8, labels: Mapping[str, str] | None = None, **fields: Any) -> Place:
    return Place(name=name, free=amounts({"gpu": gpus, "cpu": 2, "pods": 110}), labels=labels or {}, **fields)


def fit(asked: Need, *places: Place, wanted: int = 10, beside: tuple[str, ...] = ()) -> int:
    return fitting(asked, wanted, Room(places=places), beside)


def test_whole_pods_fit_on_single_nodes() -> None:
    assert fit(need(), place("a"), place("b", 7), place("c", 3)) == 3
    assert fit(need(), place("a"), place("b"), wanted=3) == 3
    assert fit(need()) == 0


def test_every_resource_counts() -> None:
    assert fit(Need(requests=amounts({"gpu": 1, "cpu": "750m"})), place("a")) == 2
    assert fit(Need(requests=amounts({"other": 1})), place("a")) == 0
    assert fit(Need(requests=amounts({"other": 0, "cpu": 1})), place("a")) == 2


def test_pods_take_what_they_asked_for() -> None:
    left = room([place("a"), place("b")], [("a", need(3)), ("a", need(3)), ("gone", need(8))], [])
    assert [each.free["gpu"] for each in left.places] == [2, 8]


def test_pods_that_wait_take_the_first_place_where_they_fit_and_no_other() -> None:
    left = room([place("a", 3), place("b")], [], [need(4), need(4), need(4)])
    assert [each.free["gpu"] for each in left.places] == [3, 0]


def test_an_overcommitted_node_has_no_room() -> None:
    left = room([place("a", 2)], [("a", need(4))], [])
    assert fitting(need(1), 1, left, ()) == 0


def test_labels_of_nodes() -> None:
    east, west = place("a", labels={"zone": "east"}), place("b", labels={"zone": "west"})
    assert fit(need(8, node_selector={"zone": "east"}), east, west) == 1
    in_west = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}
    not_b = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}
    assert fit(need(8, node_terms=[in_west]), east, west) == 1
    assert fit(need(8, node_terms=[in_west, not_b]), east, west) == 2
    assert fit(need(8, node_terms=[in_west | not_b]), east, west) == 0
    assert fit(need(8, node_terms=[{}]), east, west) == 0


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "value": "a"}, True),
        ({"key": "team", "value": "a", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "a", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], fits: bool) -> None:
    assert fit(need(8, tolerations=[toleration]), place("a", taints=[TAINT])) == fits
    assert fit(need(8), place("a", taints=[TAINT])) == 0
    assert fit(need(8), place("a", taints=[TAINT | {"effect": "PreferNoSchedule"}])) == 1


def test_pods_that_must_be_together_fit_within_one_value() -> None:
    racks = [place("a", labels={"rack": "1"}), place("b", labels={"rack": "2"}), place("c", 4, labels={"rack": "2"})]
    asked = need(together=frozenset({"rack"}))
    assert fit(asked, *racks, place("unlabelled", 100)) == 3
    assert fit(asked, *racks, beside=("a",)) == 2
    assert fit(asked, *racks, beside=("unlabelled",)) == 3


def test_closed_nodes_take_none_and_still_say_where_others_are() -> None:
    closed, near = place("a", closed=True, labels={"rack": "1"}), place("b", labels={"rack": "2"})
    assert fit(need(), closed) == 0
    assert fit(need(together=frozenset({"rack"})), closed, near, beside=("a",)) == 0


def test_pods_that_must_be_apart_fit_once_a_value() -> None:
    racks = [place("a", labels={"rack": "1"}), place("b", labels={"rack": "1"}), place("c", labels={"rack": "2"})]
    asked = need(apart=frozenset({"rack"}))
    assert fit(asked, *racks) == 2
    assert fit(asked, *racks, beside=("b",)) == 1
    assert fit(asked, *racks, place("unlabelled")) == 4


def test_what_lacks_is_told() -> None:
    nodes = Room(places=(place("a", 6), place("b", 2, taints=[TAINT]), place("c", 0)))
    assert shortage(need(), 2, 1, nodes) == (
        "2 pods need 8 gpu, and 6 gpu are free on the 2 of 3 nodes that take such pods: 1 pod fits"
    )
    memory = Need(requests=amounts({"memory": "1.5Gi", "cpu": "500m", "pods": 1}))
    assert shortage(memory, 1, 0, Room(places=(place("a"),))) == (
        "1 pod needs 1.5Gi memory, and 0Gi memory are free on the 1 of 1 nodes that take such pods: 0 pods fit"
    )


def test_where_only_the_topology_lacks_all_is_told() -> None:
    asked = need(together=frozenset({"rack"}))
    assert "2 pods need 8 gpu, and 8 gpu are free" in shortage(asked, 2, 0, Room(places=(place("a"),)))
