"""Administrators' defaults: what a job inherits where its own spec says nothing.

A job takes those of its namespace and of the cluster when it begins, and keeps them to its end: what it trains does not
change under it, and new pods of it are like the old ones.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ringtrain.contract.communication import CommunicationConfig
from ringtrain_operator.api.defaultable import not_defaultable
from ringtrain_operator.api.plain_json import NotPlain, plain_json
from ringtrain_operator.api.problem import Location, Problem
from ringtrain_operator.api.scheduling import Scheduling
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.api.validation import InvalidSpec, parse
from ringtrain_operator.plan.observed import Job
from ringtrain_operator.plan.template import MERGE_KEYS

Spec = Mapping[str, Any]
"""Raw, whole or in part."""

_ROOT = ("jobDefaults",)
_TEMPLATE = ("template", "spec")
_MERGED = frozenset({"containers", "initContainers"})
"""Of lists of named things, those whose things of one name are merged. Of others the job's own stands in place of the
default's: a variable, a mount or a volume has one source."""
_DETAILS: Mapping[tuple[str, str], tuple[Any, tuple[str, ...]]] = {
    ("communication", "codec"): (CommunicationConfig().codec, ("rate", "block", "rotate", "errorFeedback")),
    ("scheduling", "gang"): (Scheduling().gang, ("queueName",)),
}
"""What is chosen when nobody says, and the fields that belong to what is chosen: another choice comes without them."""
_LEAST: Spec = {
    "image": "image",
    "command": ["program"],
    "checkpoint": {"volume": {"claimTemplate": {"storage": "1Gi"}}},
}
"""A job that leaves to defaults whatever can be left to them."""


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """`jobDefaults` of the chart: parts of a spec."""

    cluster: Spec = field(default_factory=dict)
    namespaces: Mapping[str, Spec] = field(default_factory=dict)
    """By namespace; they precede those of the cluster."""

    def of(self, namespace: str) -> Spec:
        """For a job of `namespace` that begins now."""
        return merged(self.cluster, self.namespaces.get(namespace, {}))

    @classmethod
    def checked(cls, raw: Any) -> Self:
        """Raises InvalidSpec, with all that is wrong: the least of jobs must be valid with these defaults."""
        if not isinstance(raw, Mapping) or raw.keys() - {"cluster", "namespaces"}:
            raise InvalidSpec((Problem(_ROOT, "must be a mapping of `cluster` and `namespaces`"),))
        by_namespace = raw.get("namespaces") or {}
        if not isinstance(by_namespace, Mapping):
            raise InvalidSpec((Problem((*_ROOT, "namespaces"), "must be a mapping of namespaces to defaults"),))
        found = cls(raw.get("cluster") or {}, {name: given or {} for name, given in by_namespace.items()})
        problems = tuple(_problems(found.cluster, {}, (*_ROOT, "cluster")))
        if not problems:
            problems = tuple(
                problem
                for name, given in found.namespaces.items()
                for problem in _problems(given, found.cluster, (*_ROOT, "namespaces", name))
            )
        if problems:
            raise InvalidSpec(problems)
        return found


def with_defaults(spec: Spec, defaults: Spec) -> Spec:
    """`spec` over `defaults`. Whatever is wrong with it stays for the validation to find."""
    if not isinstance(spec, Mapping):
        return spec
    return merged(_about(spec, defaults), spec)


def merged(below: Spec, above: Spec) -> dict[str, Any]:
    """`above`, and of `below` what it says nothing about, as in a JSON merge patch (RFC 7386): objects field by field,
    lists and values replaced. But lists of named things of a PodSpec are merged by name, as spec.template is into pods;
    and null stays, which in the template takes back what the operator sets, and elsewhere means absent."""
    return _over(_without_other_details(below, above), above)


def defaults_of(job: Job) -> Spec:
    """Those that it began with; before it begins, those of now."""
    return inherited_by(job.status) if job.status.started_with else job.defaults


def inherited(job: Job) -> str:
    """For `status.inherited`."""
    defaults = defaults_of(job)
    return json.dumps(defaults, sort_keys=True, separators=(",", ":")) if defaults else ""


def inherited_by(status: TrainingJobStatus) -> Spec:
    """What a job has inherited; nothing before it begins."""
    found: Spec = json.loads(status.inherited) if status.inherited else {}
    return found


def _about(spec: Spec, defaults: Spec) -> Spec:
    """Without defaults of what the job goes without: checkpoints, and a claim of its own making."""
    checkpoint, given = spec.get("checkpoint"), defaults.get("checkpoint")
    if given is None:
        return defaults
    if not isinstance(checkpoint, Mapping):
        return {name: value for name, value in defaults.items() if name != "checkpoint"}
    volume = checkpoint.get("volume")
    if isinstance(volume, Mapping) and isinstance(volume.get("claimTemplate"), Mapping):
        return defaults
    return {**defaults, "checkpoint": {name: value for name, value in given.items() if name != "volume"}}


def _without_other_details(below: Spec, above: Spec) -> Spec:
    result = dict(below)
    for (group, choice), (unsaid, details) in _DETAILS.items():
        lower, upper = below.get(group), above.get(group)
        if not (isinstance(lower, Mapping) and isinstance(upper, Mapping) and choice in upper):
            continue
        if (upper[choice] or unsaid) != (lower.get(choice) or unsaid):
            result[group] = {name: value for name, value in lower.items() if name not in details}
    return result


def _over(below: Spec, above: Spec) -> dict[str, Any]:
    result = dict(below)
    for name, value in above.items():
        lower, key = result.get(name), MERGE_KEYS.get(name)
        if isinstance(lower, Mapping) and isinstance(value, Mapping):
            result[name] = _over(lower, value)
        elif key is not None and (ours := _named(lower, key)) and (own := _named(value, key)):
            things = own if name not in _MERGED else {it: _over(ours.get(it, {}), entry) for it, entry in own.items()}
            result[name] = list((ours | things).values())
        else:
            result[name] = value
    return result


def _named(entries: Any, key: str) -> dict[str, Spec] | None:
    """By their names; None where they have none, or share one, which is for the validation to say."""
    if not isinstance(entries, Sequence) or not all(isinstance(entry, Mapping) for entry in entries):
        return None
    found = {entry[key]: entry for entry in entries if isinstance(entry.get(key), str)}
    return found if len(found) == len(entries) else None


def _problems(given: Any, below: Spec, root: Location) -> Iterator[Problem]:
    """What is wrong with the defaults at `root`, over those `below`."""
    if not isinstance(given, Mapping):
        yield Problem(root, "must be a mapping of fields of a TrainingJob's spec to values")
        return
    try:
        plain_json(given, root, (*root, *_TEMPLATE))
    except NotPlain as error:
        yield error.problem
        return
    refused = tuple(not_defaultable(given, root))
    yield from refused
    if refused:
        return
    defaults = {name: value for name, value in merged(below, given).items() if value is not None}
    try:
        parse("job", merged(_LEAST, defaults))
    except InvalidSpec as error:
        for problem in error.problems:
            yield Problem((*root, *problem.location[1:]), problem.text)
