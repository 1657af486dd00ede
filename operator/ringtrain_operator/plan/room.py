"""What is free on the nodes, and how many pods of a kind find room at once.

It leaves out what only the scheduler knows, such as volumes, pods that others keep away from, and preemption.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from ringtrain_operator.plan.need import Amounts, Need, Object, selects

_KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node."""

    name: str
    free: Amounts
    closed: bool = False
    """It takes no pods, whatever is free: it is cordoned or not ready."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Object] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    places: tuple[Place, ...] = ()
    hidden: str = ""
    """Why it cannot be seen; empty when it can."""


def room(places: Iterable[Place], taken: Iterable[tuple[str, Need]], waiting: Iterable[Need]) -> Room:
    """What `taken`, pods with their nodes, and then `waiting` ones leave of `places`, which are of empty nodes. A pod
    that waits takes the first place where it fits, if there is one."""
    left = {place.name: place for place in places}
    for name, need in taken:
        if name in left:
            left[name] = _less(left[name], need)
    for need in waiting:
        first = next((place for place in left.values() if _times(need, place)), None)
        if first is not None:
            left[first.name] = _less(first, need)
    return Room(places=tuple(left.values()))


def fitting(need: Need, wanted: int, found: Room, beside: Collection[str]) -> int:
    """How many of `wanted` pods like `need` fit now, all at once; `beside` are the nodes of the pods like them."""
    others = [place for place in found.places if place.name in beside]
    groups: dict[tuple[str, ...], list[Place]] = {}
    for place in found.places:
        if need.together <= place.labels.keys():
            groups.setdefault(_values(place, need.together), []).append(place)
    near = {_values(place, need.together) for place in others if need.together <= place.labels.keys()}
    return max(
        (_fill(need, wanted, group, others) for at, group in groups.items() if not near or at in near), default=0
    )


def shortage(need: Need, wanted: int, fit: int, found: Room) -> str:
    """`2 pods need 8 nvidia.com/gpu, and 6 are free on 2 of 3 nodes that take such pods: 1 pod fits`."""
    open_to = [place for place in found.places if _admits(place, need)]
    each = {resource: amount for resource, amount in need.requests.items() if amount > 0}
    scarce = [r for r, amount in each.items() if sum(_whole(p.free.get(r), amount) for p in open_to) < wanted]
    named = sorted(scarce or (resource for resource in each if resource != "pods")) or ["pods"]
    needed = ", ".join(_told(resource, wanted * each[resource]) for resource in named)
    free = ", ".join(_told(r, sum((p.free.get(r, Fraction(0)) for p in open_to), Fraction(0))) for r in named)
    return (
        f"{_pods(wanted)} need{'s' * (wanted == 1)} {needed}, and {free} are free on the {len(open_to)} of "
        f"{len(found.places)} nodes that take such pods: {_pods(fit)} fit{'s' * (fit == 1)}"
    )


def _fill(need: Need, wanted: int, places: Sequence[Place], others: Sequence[Place]) -> int:
    full = {(key, place.labels.get(key)) for place in others for key in need.apart}
    count = 0
    for place in places:
        here = {(key, place.labels[key]) for key in need.apart if key in place.labels}
        if count < wanted and not here & full:
            count += min(_times(need, place), 1) if here else _times(need, place)
            full |= here
    return min(count, wanted)


def _times(need: Need, place: Place) -> int:
    """How many such pods the place takes."""
    if not _admits(place, need):
        return 0
    return min(_whole(place.free.get(resource), amount) for resource, amount in need.requests.items() if amount > 0)


def _whole(free: Fraction | None, amount: Fraction) -> int:
    return max(0, (free or Fraction(0)) // amount)


def _less(place: Place, need: Need) -> Place:
    zero = Fraction(0)
    return replace(place, free={r: amount - need.requests.get(r, zero) for r, amount in place.free.items()})


def _admits(place: Place, need: Need) -> bool:
    if place.closed or not selects({"matchLabels": need.node_selector}, place.labels):
        return False
    if need.node_terms is not None and not any(_suits(term, place) for term in need.node_terms):
        return False
    taints = (taint for taint in place.taints if taint["effect"] in _KEEPS_OFF)
    return all(any(_tolerates(one, taint) for one in need.tolerations) for taint in taints)


def _suits(term: Object, place: Place) -> bool:
    """An empty term suits no node."""
    fields = {"matchExpressions": term.get("matchFields") or ()}
    named = selects(fields, {"metadata.name": place.name})
    return bool(term.get("matchExpressions") or term.get("matchFields")) and named and selects(term, place.labels)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def _values(place: Place, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(place.labels[key] for key in sorted(keys))


def _pods(count: int) -> str:
    return f"{count} pod{'s' * (count != 1)}"


def _told(resource: str, amount: Fraction) -> str:
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return f"{float(amount / 2**30):.4g}Gi {resource}"
    return f"{float(amount):g} {resource}"
