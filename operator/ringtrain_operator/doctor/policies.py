"""What NetworkPolicies let through, by the rules of networking.k8s.io/v1. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Literal

Labels = Mapping[str, str]
Object = Mapping[str, Any]
Direction = Literal["Ingress", "Egress"]

_HIGH = (1024, 65535)
"""Ports that an all-reduce may use: they are chosen by the system."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A pod at the other end."""

    namespace: str
    namespace_labels: Labels
    labels: Labels
    networks: tuple[str, ...] = ()
    """CIDRs that its address is in, as far as known."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port, or with `number` None all that the system chooses from."""

    protocol: str
    number: int | None = None
    name: str = ""


def blocking(
    policies: Iterable[Object], direction: Direction, namespace: str, labels: Labels, peer: Peer, port: Port
) -> tuple[str, ...]:
    """Names of the policies that keep a pod of `labels` in `namespace` from exchanging with `peer`; none: they may."""
    selecting = [
        policy
        for policy in policies
        if direction in _types(policy["spec"]) and selects(policy["spec"].get("podSelector") or {}, labels)
    ]
    rules, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    for policy in selecting:
        for rule in policy["spec"].get(rules) or ():
            if _has_peer(rule.get(peers), namespace, peer) and _has_port(rule.get("ports"), port):
                return ()
    return tuple(policy["metadata"]["name"] for policy in selecting)


def selects(selector: Object, labels: Labels) -> bool:
    """A LabelSelector; an empty one selects all."""
    equal = (selector.get("matchLabels") or {}).items() <= labels.items()
    return equal and all(_fits(one, labels) for one in selector.get("matchExpressions") or ())


def _fits(expression: Object, labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _types(spec: Object) -> Sequence[str]:
    given: Sequence[str] = spec.get("policyTypes") or ()
    return given or ("Ingress", "Egress") if "egress" in spec else given or ("Ingress",)


def _has_peer(entries: Sequence[Object] | None, namespace: str, peer: Peer) -> bool:
    return not entries or any(_is_peer(entry, namespace, peer) for entry in entries)


def _is_peer(entry: Object, namespace: str, peer: Peer) -> bool:
    if "ipBlock" in entry:
        return _in_block(entry["ipBlock"], peer.networks)
    if "namespaceSelector" in entry:
        if not selects(entry["namespaceSelector"] or {}, peer.namespace_labels):
            return False
    elif peer.namespace != namespace:
        return False
    return selects(entry.get("podSelector") or {}, peer.labels)


def _in_block(block: Object, networks: Sequence[str]) -> bool:
    """Where no network is known: whether nothing is excepted."""
    excepted = [ip_network(text) for text in block.get("except") or ()]
    if not networks:
        return not excepted
    whole = ip_network(block["cidr"])
    return any(
        _within(network, whole) and not any(_within(network, other) for other in excepted)
        for network in map(ip_network, networks)
    )


def _within(inner: Any, outer: Any) -> bool:
    return bool(inner.version == outer.version and inner.subnet_of(outer))


def _has_port(entries: Sequence[Object] | None, port: Port) -> bool:
    return not entries or any(_is_port(entry, port) for entry in entries)


def _is_port(entry: Object, port: Port) -> bool:
    if entry.get("protocol", "TCP") != port.protocol:
        return False
    first = entry.get("port")
    if first is None:
        return True
    if isinstance(first, str):
        return bool(port.name) and first == port.name
    last = entry.get("endPort", first)
    least, most = (port.number, port.number) if port.number is not None else _HIGH
    return bool(first <= least and most <= last)
