"""What a pod asks of a node, as far as Kubernetes' scheduler looks at it and the operator can tell beforehand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ringtrain_operator.api.quantity import quantity

Object = Mapping[str, Any]
Amounts = Mapping[str, Fraction]
"""By resource; a place for a pod is one of `pods`."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_amount = lru_cache(4096)(quantity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    requests: Amounts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: Sequence[Object] | None = None
    """NodeSelectorTerms, of which one has to fit; None: any node does."""
    tolerations: Sequence[Object] = ()
    together: frozenset[str] = frozenset()
    """Labels of nodes, in whose values pods like this one must agree."""
    apart: frozenset[str] = frozenset()
    """Labels of nodes, in whose values no two such pods may agree."""


def need_of(pod: Object) -> Need:
    """Of a Pod, in the API server or on its way to it. Of affinities to pods, those to pods like itself count."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    affinity = spec.get("affinity") or {}
    terms = ((affinity.get("nodeAffinity") or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms")
    return Need(
        requests=_requests(spec),
        node_selector=spec.get("nodeSelector") or {},
        node_terms=terms,
        tolerations=spec.get("tolerations") or (),
        together=_keys(affinity.get("podAffinity"), labels),
        apart=_keys(affinity.get("podAntiAffinity"), labels),
    )


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector, or the expressions of a NodeSelectorTerm, fit `labels`."""
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def amounts(resources: Object) -> dict[str, Fraction]:
    """Of quantities, as they are written."""
    return {resource: _amount(str(text)) for resource, text in resources.items()}


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _number(value) > _number(values[0])
        case "Lt":
            return _number(value) < _number(values[0])
    return False


def _number(text: str | None) -> float:
    """Not a number, which compares to nothing, when it is none."""
    return int(text) if text is not None and text.lstrip("-").isdecimal() else float("nan")


def _keys(affinity: Object | None, labels: Mapping[str, str]) -> frozenset[str]:
    """Topologies of its required terms that mean pods with `labels`."""
    terms = (affinity or {}).get(_REQUIRED) or ()
    mine = (term for term in terms if term.get("labelSelector") and selects(term["labelSelector"], labels))
    return frozenset(term["topologyKey"] for term in mine)


def _requests(spec: Object) -> dict[str, Fraction]:
    """As the scheduler adds them up: containers run together, and init containers one by one before them, but for
    side-cars, which stay."""
    total = _sum(map(_container_requests, spec["containers"]))
    before: dict[str, Fraction] = {}
    side_cars: dict[str, Fraction] = {}
    for container in spec.get("initContainers") or ():
        asked = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            side_cars = _sum([side_cars, asked])
        before = _most(before, side_cars if container.get("restartPolicy") == "Always" else _sum([side_cars, asked]))
    whole = _most(_sum([total, side_cars]), before)
    return _sum([whole, amounts(spec.get("overhead") or {}), {"pods": Fraction(1)}])


def _container_requests(container: Object) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    # The API server takes limits for requests that are missing.
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(parts: Iterable[Amounts]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    return total


def _most(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    zero = Fraction(0)
    return {resource: max(one.get(resource, zero), other.get(resource, zero)) for resource in {*one, *other}}
