"""The CustomResourceDefinition of TrainingJobs: `python -m ringtrain_operator.api.crd` writes it, below the folder
it is started in, to crds/ (for kubectl) and to the Helm chart.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ringtrain_operator.api.cel_rules import CEL_RULES
from ringtrain_operator.api.defaultable import inheritable
from ringtrain_operator.api.schema import Schema, structural_schema
from ringtrain_operator.api.spec import GROUP, KIND, PLURAL, VERSION, TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus

CRD_FILE = Path("crds/ringtrain.io_trainingjobs.yaml")
CHART_FILE = Path("charts/ringtrain/templates/crd.yaml")

_RULES = "x-kubernetes-validations"
_WRITTEN = "# Written by `python -m ringtrain_operator.api.crd` from the typed spec: change that.\n"
_ANNOTATIONS = """\
  {{- if or .Values.crds.keep .Values.crds.annotations }}
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.crds.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}""".splitlines()
_LIST_KEYS = {"conditions": "type", "members": "index"}
"""Lists of the status that are maps by one of their fields."""


def custom_resource_definition() -> dict[str, Any]:
    """The whole object, for Kubernetes 1.25 and later (its CEL rules are unknown before)."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["tj"],
                "categories": ["all", "ringtrain"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "additionalPrinterColumns": _columns(),
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _columns() -> list[dict[str, Any]]:
    return [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Loss", "type": "string", "jsonPath": ".status.loss"},
        {"name": "Ready", "type": "integer", "jsonPath": ".status.ready"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts"},
        {"name": "Checkpoint", "type": "integer", "jsonPath": ".status.lastCheckpoint.round"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Comm", "type": "string", "jsonPath": ".status.communication.share", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1},
    ]


def _schema() -> Schema:
    status = structural_schema(TrainingJobStatus, defaults=False)
    for field, key in _LIST_KEYS.items():
        status["properties"][field] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    schema: Schema = {
        "description": "A PyTorch training that survives the loss of any process, pod or node.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"{GROUP}/{VERSION}.", "type": "string"},
            "kind": {"description": f"{KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": inheritable(structural_schema(TrainingJobSpec, defaults=True)),
            "status": status,
        },
    }
    for rule in CEL_RULES:
        node = schema
        for field in rule.location:
            node = node["properties"][field]
        node.setdefault(_RULES, []).append({"rule": rule.expression, "message": rule.message})
    return schema


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, so that a block ends where the indentation does."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _yaml(document: Any) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=116, allow_unicode=True)


def crd_yaml() -> str:
    """For kubectl, on Kubernetes 1.25 and later."""
    return _WRITTEN + _yaml(custom_resource_definition())


def chart_yaml() -> str:
    """For Helm: kept on uninstall, without CEL rules where the cluster does not know them."""
    lines = _yaml(custom_resource_definition()).replace("{{", '{{ "{{" }}').splitlines()
    name = lines.index(f"  name: {PLURAL}.{GROUP}")
    body = [*lines[: name + 1], *_ANNOTATIONS, *_guarded(lines[name + 1 :])]
    return "\n".join([_WRITTEN + "{{- if .Values.crds.enabled }}", *body, "{{- end }}", ""])


def _guarded(lines: list[str]) -> Iterator[str]:
    """`lines` with every block of CEL rules made conditional."""
    inside: int | None = None
    for line in [*lines, ""]:
        indentation = len(line) - len(line.lstrip())
        if inside is not None and indentation <= inside:
            yield " " * inside + "{{- end }}"
            inside = None
        if re.fullmatch(rf"\s*{_RULES}:", line):
            inside = indentation
            yield " " * inside + '{{- if semverCompare ">=1.25-0" .Capabilities.KubeVersion.Version }}'
        if line:
            yield line


def write(root: Path) -> None:
    """Writes both files below `root`. Raises OSError."""
    for path, text in ((CRD_FILE, crd_yaml()), (CHART_FILE, chart_yaml())):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path.cwd())
