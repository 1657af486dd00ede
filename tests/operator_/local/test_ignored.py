from typing import Any

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.local.ignored import ignored_fields


def spec(**fields: Any) -> TrainingJobSpec:
    return TrainingJobSpec.model_validate({"image": "x", "command": ["python", "train.py"]} | fields)


def test_a_plain_job_uses_all() -> None:
    trainer = {"name": "trainer", "env": [{"name": "MODE", "value": "fast"}]}
    assert ignored_fields(spec(template={"spec": {"containers": [trainer]}})) == []


def test_what_is_not_used_is_listed() -> None:
    trainer = {
        "name": "trainer",
        "env": [{"name": "TOKEN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [],
    }
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [trainer, {"name": "sidecar", "image": "y"}]},
    }
    assert ignored_fields(spec(resources={"limits": {"memory": "1Gi"}}, template=template)) == [
        "spec.resources",
        "spec.template.metadata",
        "spec.template.spec.nodeSelector",
        "spec.template.spec.containers[trainer].volumeMounts",
        "spec.template.spec.containers[trainer].env[TOKEN].valueFrom",
        "spec.template.spec.containers[sidecar]",
    ]
