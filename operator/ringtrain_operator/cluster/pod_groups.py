"""Objects of other schedulers, whose kinds a cluster may not have."""

from collections.abc import Mapping
from typing import Any

from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.cluster.protocol import Rejected
from ringtrain_operator.plan.advice import with_advice

_REFUSALS = frozenset({400, 403, 413, 422})


async def apply(api: KubernetesApi, namespace: str, manifest: Mapping[str, Any]) -> None:
    """The PodGroup becomes what `manifest` says, whether or not it exists; fields of others stay. Raises Rejected when
    the API server does not know or will not have it, else ApiError."""
    version, name = manifest["apiVersion"], manifest["metadata"]["name"]
    try:
        await api.request(
            "PATCH",
            f"/apis/{version}/namespaces/{namespace}/podgroups/{name}",
            query={"fieldManager": "ringtrain-operator", "force": "true"},
            body=dict(manifest),
            content="application/apply-patch+yaml",
        )
    except ApiError as error:
        if error.status == 404:
            raise Rejected(
                f"this cluster has no PodGroups of {version}: install the scheduler they are of, or set "
                "spec.scheduling.gang to another value"
            ) from error
        if error.status in _REFUSALS:
            raise Rejected(with_advice(f"PodGroup {name} was refused: {error.message}")) from error
        raise
