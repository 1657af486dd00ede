"""Facts of a healthy cluster, in which tests change what they are about."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ringtrain_operator.client.job import TrainingJob
from ringtrain_operator.doctor.facts import Crd, Dns, Facts, Operator, StorageClass
from ringtrain_operator.doctor.fields import known_fields

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OPERATOR = Operator(
    namespace="ringtrain-system",
    name="ringtrain",
    image="ringtrain-operator:1",
    wanted=1,
    ready=1,
    watched=(),
    account="ringtrain",
    lease="ringtrain-system/ringtrain",
    watches_nodes=True,
)
SHARED = StorageClass(name="shared", provisioner="nfs.csi.k8s.io", is_default=True)
HEALTHY = Facts(
    namespace="team",
    now=NOW,
    crd=Crd(served=("v1alpha1",), established=True, fields=known_fields()),
    denied=(),
    operators=(OPERATOR,),
    operator_denied={"system:serviceaccount:ringtrain-system:ringtrain": ()},
    jobs=(),
    waiting=(),
    classes=(SHARED,),
    volumes=(),
    gpus={"nvidia.com/gpu": 8},
    pod_networks=("10.244.1.0/24",),
    dns=Dns(services={"kube-system/kube-dns": 2}),
    policies=(),
    namespace_labels={"team": {}, "kube-system": {}, "ringtrain-system": {}},
)


def facts(**changed: Any) -> Facts:
    return replace(HEALTHY, **changed)


def job(name: str = "gpt", *, created: str = "2026-01-01T11:00:00Z", status: Any = None, **spec: Any) -> TrainingJob:
    """An hour old, seen by the operator, unless said otherwise."""
    return TrainingJob.of(
        {
            "metadata": {"namespace": "team", "name": name, "uid": name, "generation": 1, "creationTimestamp": created},
            "spec": spec,
            "status": {"observedGeneration": 1} if status is None else status,
        }
    )
