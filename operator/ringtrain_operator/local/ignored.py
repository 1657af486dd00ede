"""Which parts of a TrainingJob have no meaning on one machine. Pure."""

from collections.abc import Mapping
from typing import Any

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.local.container import TRAINER

_OF_AN_OBJECT = ("suspend", "managedBy", "ttlSecondsAfterFinished", "cleanPodPolicy", "spareReplicas", "scheduling")
"""Who runs a job here wants it to run here and now; it ends with the command, and its logs are files. There is no
scheduler, and no other node that could be held for it."""


def without_ignored(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The raw `spec` without the fields that would stop the job, or make it vanish, on one machine."""
    return {field: value for field, value in spec.items() if field not in _OF_AN_OBJECT}


def ignored_fields(spec: TrainingJobSpec) -> list[str]:
    """Paths of the fields that are set and not used here. The image is not listed: every job has one."""
    given = spec.model_dump(by_alias=True, exclude_defaults=True)
    found = [f"spec.{field}" for field in _OF_AN_OBJECT if field in given]
    found += ["spec.elastic"] if spec.elastic is not None else []
    found += ["spec.faultTolerance.nodeExclusion"] if spec.fault_tolerance.node_exclusion is not None else []
    found += ["spec.resources"] if spec.resources.requests or spec.resources.limits else []
    metadata = spec.template.metadata
    if metadata.labels or metadata.annotations:
        found.append("spec.template.metadata")
    for key, value in spec.template.spec.items():
        if key == "containers":
            found += [path for entry in value for path in _of_container(entry)]
        else:
            found.append(f"spec.template.spec.{key}")
    return found


def _of_container(entry: dict[str, object]) -> list[str]:
    name = entry.get("name")
    path = f"spec.template.spec.containers[{name}]"
    if name != TRAINER:
        return [path]
    found = [f"{path}.{key}" for key in entry if key not in ("name", "env")]
    variables = entry.get("env")
    if isinstance(variables, list):
        found += [f"{path}.env[{variable['name']}].valueFrom" for variable in variables if "valueFrom" in variable]
    return found
