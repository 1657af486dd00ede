"""Asks a cluster for the facts."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from ringtrain_operator.api.spec import GROUP, PLURAL
from ringtrain_operator.client.errors import CannotAsk, ClientError, explain
from ringtrain_operator.client.jobs import TrainingJobs
from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.doctor import read
from ringtrain_operator.doctor.facts import (
    Crd,
    Dns,
    Facts,
    Labels,
    Operator,
    StorageClass,
    Unknown,
    Volume,
    WaitingPod,
)
from ringtrain_operator.doctor.rights import LEASE, NODES, OPERATOR, USER, Right
from ringtrain_operator.plan.names import LABEL_JOB

Known = TypeVar("Known")

_OPERATOR_LABELS = "app.kubernetes.io/part-of=ringtrain,app.kubernetes.io/component=operator"
_OPERATOR_NAMESPACE = "ringtrain-system"
"""Where those look who may not look everywhere."""
_DNS_NAMESPACE, _DNS_LABELS = "kube-system", "k8s-app=kube-dns"
_ASKED_AT_ONCE = 16


async def gather(jobs: TrainingJobs, operator_namespace: str | None, now: datetime) -> Facts:
    """`operator_namespace` None: all. Raises CannotAsk when the cluster gives no answer, or does not know us."""
    asked = _Asked(jobs.api, jobs.namespace)
    # First, and by itself: of a cluster that is not there, everything else would be unknown.
    await asked.version()
    operators = await _known(asked.operators(operator_namespace))
    found = () if isinstance(operators, Unknown) else operators
    namespaces = sorted({jobs.namespace, _DNS_NAMESPACE, *(operator.namespace for operator in found)})
    crd, nodes, stored, waiting = await asyncio.gather(
        _known(asked.crd()), _known(asked.all("/api/v1/nodes")), _known(jobs.list()), _known(asked.waiting())
    )
    classes, volumes, dns, policies = await asyncio.gather(
        _known(asked.classes()),
        _known(asked.volumes()),
        _known(asked.dns()),
        _known(asked.all(f"/apis/networking.k8s.io/v1/namespaces/{jobs.namespace}/networkpolicies")),
    )
    denied, operator_denied, labels = await asyncio.gather(
        asked.denied(USER),
        _known(asked.operator_denied(found)),
        asyncio.gather(*map(asked.namespace_labels, namespaces)),
    )
    return Facts(
        namespace=jobs.namespace,
        now=now,
        crd=crd,
        denied=denied,
        operators=operators,
        operator_denied=operator_denied,
        jobs=stored,
        waiting=waiting,
        classes=classes,
        volumes=volumes,
        gpus=nodes if isinstance(nodes, Unknown) else read.gpus_of(nodes),
        pod_networks=() if isinstance(nodes, Unknown) else read.networks_of(nodes),
        dns=dns,
        policies=policies,
        namespace_labels=dict(zip(namespaces, labels, strict=True)),
    )


async def _known(answer: Awaitable[Known]) -> Known | Unknown:
    try:
        return await answer
    except ApiError as error:
        return Unknown(error.message)
    except ClientError as error:
        return Unknown(str(error))


class _Asked:
    """Requests, each for one fact. They raise ApiError."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._slots = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def version(self) -> None:
        """Raises CannotAsk."""
        try:
            await self._api.request("GET", "/version")
        except ApiError as error:
            explained = explain(error)
            raise explained if isinstance(explained, CannotAsk) else CannotAsk(str(explained)) from error

    async def all(self, path: str) -> tuple[Json, ...]:
        return tuple(await self._api.list(path))

    async def crd(self) -> Crd | None:
        raw = await self._api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURAL}.{GROUP}")
        return None if raw is None else read.crd_of(raw)

    async def operators(self, namespace: str | None) -> tuple[Operator, ...]:
        try:
            deployments = await self._deployments(f"/namespaces/{namespace}" if namespace else "")
        except ApiError as error:
            if error.status != 403 or namespace is not None:
                raise
            deployments = await self._deployments(f"/namespaces/{_OPERATOR_NAMESPACE}")
        return tuple([read.operator_of(raw, await self._pods_of(raw)) for raw in deployments])

    async def _deployments(self, scope: str) -> list[Json]:
        return await self._api.list(f"/apis/apps/v1{scope}/deployments", _OPERATOR_LABELS)

    async def _pods_of(self, deployment: Json) -> list[Json]:
        labels = deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return await self._api.list(f"/api/v1/namespaces/{deployment['metadata']['namespace']}/pods", selector)

    async def denied(self, rights: Sequence[Right]) -> tuple[Right, ...]:
        """Of ours."""
        return await self._refused(rights, self._namespace)

    async def operator_denied(self, operators: Sequence[Operator]) -> Mapping[str, tuple[Right, ...]]:
        """By service account, of the operators that look at the namespace."""
        found = {}
        for operator in operators:
            if not operator.watched or self._namespace in operator.watched:
                account = f"system:serviceaccount:{operator.namespace}:{operator.account}"
                lease_namespace, _, lease = operator.lease.partition("/")
                found[account] = (
                    *await self._refused(OPERATOR, self._namespace, user=account),
                    *(await self._refused(NODES, "", user=account) if operator.watches_nodes else ()),
                    *(await self._refused(LEASE, lease_namespace, lease, user=account) if lease else ()),
                )
        return found

    async def _refused(
        self, rights: Sequence[Right], namespace: str, name: str = "", *, user: str = ""
    ) -> tuple[Right, ...]:
        allowed = await asyncio.gather(*(self._may(right, namespace, name, user) for right in rights))
        return tuple(right for right, may in zip(rights, allowed, strict=True) if not may)

    async def _may(self, right: Right, namespace: str, name: str, user: str) -> bool:
        """Whether `user` may, or with an empty one we; an empty namespace means all, an empty name any."""
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "verb": right.verb,
            "namespace": namespace,
            "name": name,
        }
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        spec = {"resourceAttributes": attributes} | ({"user": user, "groups": _groups(user)} if user else {})
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        async with self._slots:
            answer = await self._api.request("POST", f"/apis/authorization.k8s.io/v1/{kind.lower()}s", body=body)
        return bool(answer["status"]["allowed"])

    async def waiting(self) -> tuple[WaitingPod, ...]:
        raw = await self._api.list(f"/api/v1/namespaces/{self._namespace}/pods", LABEL_JOB)
        return tuple(pod for pod in map(read.waiting_of, raw) if pod is not None)

    async def classes(self) -> tuple[StorageClass, ...]:
        return tuple(map(read.class_of, await self._api.list("/apis/storage.k8s.io/v1/storageclasses")))

    async def volumes(self) -> tuple[Volume, ...]:
        return tuple(map(read.volume_of, await self._api.list("/api/v1/persistentvolumes")))

    async def dns(self) -> Dns:
        core = f"/api/v1/namespaces/{_DNS_NAMESPACE}"
        names = [raw["metadata"]["name"] for raw in await self._api.list(f"{core}/services", _DNS_LABELS)]
        endpoints = await asyncio.gather(*(self._api.get(f"{core}/endpoints/{name}") for name in names))
        found = zip(names, endpoints, strict=True)
        return Dns(
            services={f"{_DNS_NAMESPACE}/{name}": read.ready_addresses(raw) if raw else 0 for name, raw in found}
        )

    async def namespace_labels(self, name: str) -> Labels:
        """None are known of a namespace that we may not see, but for the name that Kubernetes gives it."""
        try:
            raw = await self._api.get(f"/api/v1/namespaces/{name}") or {"metadata": {}}
        except ApiError:
            raw = {"metadata": {}}
        return {"kubernetes.io/metadata.name": name} | (raw["metadata"].get("labels") or {})


def _groups(account: str) -> list[str]:
    """Of system:serviceaccount:NAMESPACE:NAME, as authentication gives them."""
    namespace = account.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
