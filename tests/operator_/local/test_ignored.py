from typing import Any

from ringtrain_operator.api.spec import TrainingJobSpec
from ringtrain_operator.local.ignored import ignored_fields, without_ignored


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
    elastic = {"elastic": {"minReplicas": 1}, "faultTolerance": {"nodeExclusion": {}}}
    assert ignored_fields(spec(resources={"limits": {"memory": "1Gi"}}, template=template, **elastic)) == [
        "spec.elastic",
        "spec.faultTolerance.nodeExclusion",
        "spec.resources",
        "spec.template.metadata",
        "spec.template.spec.nodeSelector",
        "spec.template.spec.containers[trainer].volumeMounts",
        "spec.template.spec.containers[trainer].env[TOKEN].valueFrom",
        "spec.template.spec.containers[sidecar]",
    ]


def test_what_is_of_an_object_in_a_cluster_neither_stops_a_run_nor_ends_it_early() -> None:
    raw = {
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "ttlSecondsAfterFinished": 0,
        "cleanPodPolicy": "All",
        "scheduling": {"schedulerName": "fair"},
    }
    assert ignored_fields(spec(**raw)) == [f"spec.{field}" for field in raw]
    assert without_ignored({"image": "x", "activeDeadlineSeconds": 9} | raw) == {
        "image": "x",
        "activeDeadlineSeconds": 9,
    }
    assert ignored_fields(spec(suspend=False, activeDeadlineSeconds=9, pendingDeadlineSeconds=9)) == []
