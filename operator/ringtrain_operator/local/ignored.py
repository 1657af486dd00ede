"""Which parts of a TrainingJob have no meaning on one machine. Pure."""

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.local.container import TRAINER


def ignored_fields(spec: TrainingJobSpec) -> list[str]:
    """Paths of the fields that are set and not used here. The image is not listed: every job has one."""
    found = ["spec.resources"] if spec.resources.requests or spec.resources.limits else []
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
