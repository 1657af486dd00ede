from typing import Any

import pytest

from ringtrain_operator.doctor.policies import Peer, Port, blocking, selects

TCP = Port("TCP", 80, "web")
OTHER = Peer("other", {"team": "blue"}, {"app": "web"})


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selectors(selector: dict[str, Any], taken: bool) -> None:
    assert selects(selector, {"app": "web"}) is taken


@pytest.mark.parametrize(
    ("entry", "free"),
    [
        ({"podSelector": {}}, False),  # of the policy's own namespace
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "blue"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, False),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, True),  # no address is known
    ],
)
def test_peers_in_another_namespace(entry: dict[str, Any], free: bool) -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"from": [entry]}]}}
    assert blocking([policy], "Ingress", "own", {}, OTHER, TCP) == (() if free else ("p",))


@pytest.mark.parametrize(
    ("ports", "free"),
    [
        ([], True),
        ([{"port": 80}], True),
        ([{"port": "web"}], True),
        ([{"port": "other"}], False),
        ([{"port": 80, "protocol": "UDP"}], False),
        ([{"protocol": "TCP"}], True),
        ([{"port": 70, "endPort": 90}], True),
        ([{"port": 443}], False),
    ],
)
def test_ports(ports: list[dict[str, Any]], free: bool) -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"ports": ports}]}}
    assert blocking([policy], "Ingress", "own", {}, OTHER, TCP) == (() if free else ("p",))


@pytest.mark.parametrize(
    ("spec", "directions"),
    [
        ({}, {"Ingress"}),
        ({"egress": []}, {"Ingress", "Egress"}),
        ({"policyTypes": ["Egress"]}, {"Egress"}),
    ],
)
def test_directions(spec: dict[str, Any], directions: set[str]) -> None:
    policy = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, **spec}}
    closed = {d for d in ("Ingress", "Egress") if blocking([policy], d, "own", {}, OTHER, TCP)}
    assert closed == directions


def test_one_policy_that_allows_is_enough() -> None:
    closed = {"metadata": {"name": "closed"}, "spec": {"podSelector": {}}}
    opened = {"metadata": {"name": "opened"}, "spec": {"podSelector": {}, "ingress": [{}]}}
    assert blocking([closed, opened], "Ingress", "own", {}, OTHER, TCP) == ()
    assert blocking([closed, closed], "Ingress", "own", {}, OTHER, TCP) == ("closed", "closed")
