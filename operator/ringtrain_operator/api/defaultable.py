"""Fields for which administrators may set defaults (plan/defaults.py).

Not among them: what is trained and on how much, which every job says itself; and what a job could not refuse, for a
field that is absent means none there (nodeExclusion, preflight, elastic).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ringtrain_operator.api.problem import Location, Problem
from ringtrain_operator.api.schema import Schema
from ringtrain_operator.api.spec import FaultTolerance

Fields = Mapping[str, Any]
"""By name: True for the whole of a field, or those Fields of it."""

_EVERY_JOBS_OWN = {"node_exclusion", "preflight"}

DEFAULTABLE: Fields = {
    "activeDeadlineSeconds": True,
    "pendingDeadlineSeconds": True,
    "ttlSecondsAfterFinished": True,
    "cleanPodPolicy": True,
    "image": True,
    "imagePullPolicy": True,
    "gpuResource": True,
    "resources": True,
    "shmSize": True,
    "communication": True,
    # Of jobs that have checkpoints, and make a claim for them.
    "checkpoint": {
        "every": True,
        "keep": True,
        "keepEvery": True,
        "memoryEvery": True,
        "replicate": True,
        "saveOnPreemption": True,
        "volume": {"claimTemplate": {"storageClassName": True, "accessModes": True}},
    },
    "faultTolerance": {
        str(field.alias): True for name, field in FaultTolerance.model_fields.items() if name not in _EVERY_JOBS_OWN
    },
    "scheduling": True,
    "template": True,
}


def inheritable(schema: Schema, fields: Fields = DEFAULTABLE) -> Schema:
    """The schema of a spec, for an API server: it neither demands `fields` nor stores their defaults, for nobody could
    tell those from what a job says itself. Descriptions tell them."""
    properties = dict(schema["properties"])
    for name, inner in fields.items():
        properties[name] = _bare(properties[name]) if inner is True else inheritable(properties[name], inner)
    result = schema | {"properties": properties}
    result["required"] = [name for name in schema.get("required", ()) if fields.get(name) is not True]
    return _without_empty(result)


def _bare(schema: Schema) -> Schema:
    """Without its default, and those of all that is in it."""
    result = dict(schema)
    default = result.pop("default", {})
    if default != {}:
        result["description"] += f" Default: {default if isinstance(default, str) else json.dumps(default)}."
    if "properties" in schema:
        result["properties"] = {name: _bare(inner) for name, inner in schema["properties"].items()}
    return result


def _without_empty(schema: Schema) -> Schema:
    """A default that nothing fills, and a list of no required fields, are better absent."""
    fills = any("default" in field for field in schema["properties"].values())
    dropped = {"default"} if schema.get("default") == {} and not fills else set()
    if not schema["required"]:
        dropped.add("required")
    return {key: value for key, value in schema.items() if key not in dropped}


def not_defaultable(given: Mapping[str, Any], location: Location, fields: Fields = DEFAULTABLE) -> Iterator[Problem]:
    """Every field of `given`, a part of a spec, that is none of `fields`."""
    for name, value in given.items():
        inner = fields.get(name)
        if inner is None:
            yield Problem((*location, name), f"can have no default; these can: {', '.join(fields)}")
        elif inner is not True and isinstance(value, Mapping):
            yield from not_defaultable(value, (*location, name), inner)
