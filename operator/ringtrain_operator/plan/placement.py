"""Where pods may be scheduled, beyond what the user's template says."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringtrain_operator.api.scheduling import Scheduling

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
"""The most that a preference can weigh."""


def near(pod_spec: Mapping[str, Any], scheduling: Scheduling, labels: Mapping[str, str]) -> dict[str, Any]:
    """`pod_spec` kept where pods with `labels` are, by the topology of `scheduling`, in addition to its own
    affinities. A scheduler takes the first pod of those that require each other anywhere."""
    if scheduling.topology_key is None:
        return dict(pod_spec)
    term: Any = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": scheduling.topology_key}
    kind = _REQUIRED if scheduling.topology_policy == "Required" else _PREFERRED
    entry = term if kind == _REQUIRED else {"weight": _WEIGHT, "podAffinityTerm": term}
    affinity = pod_spec.get("affinity") or {}
    pod_affinity = affinity.get("podAffinity") or {}
    entries = [*(pod_affinity.get(kind) or ()), entry]
    return {**pod_spec, "affinity": {**affinity, "podAffinity": {**pod_affinity, kind: entries}}}


def kept_off(pod_spec: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """`pod_spec` with none of `nodes` allowed, in addition to its own node affinity. A pod that names its node has no
    other choice, and is left alone."""
    if not nodes or "nodeName" in pod_spec:
        return dict(pod_spec)
    affinity = pod_spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED) or {"nodeSelectorTerms": [{"matchFields": []}]}
    terms = [_without(term, nodes) for term in required["nodeSelectorTerms"]]
    return {
        **pod_spec,
        "affinity": {
            **affinity,
            "nodeAffinity": {**node_affinity, _REQUIRED: {**required, "nodeSelectorTerms": terms}},
        },
    }


def _without(term: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Terms are alternatives, so each has to keep off. A field's expression has one value only."""
    if term == {}:
        return {}  # It fits no node; with an expression it would.
    off = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
    return {**term, "matchFields": [*(term.get("matchFields") or ()), *off]}
