"""The Cluster protocol on Kubernetes."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from ringtrain_operator.api.spec import GROUP, KIND, PLURAL, VERSION, CheckpointSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.cluster import agents, convert, events
from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.cluster.nodes import Nodes
from ringtrain_operator.cluster.protocol import Conflict, Rejected
from ringtrain_operator.plan.names import LABEL_JOB, claim_name
from ringtrain_operator.plan.observed import Job, JobKey, Observed
from ringtrain_operator.plan.result import Create, DeletePod, Event
from ringtrain_operator.queue import LONGEST_BACKOFF

_PLURALS = {"Pod": "pods", "Service": "services", "PersistentVolumeClaim": "persistentvolumeclaims"}
_REFUSALS = frozenset({400, 403, 404, 413, 422})
_REFUSAL_SECONDS = 2 * LONGEST_BACKOFF

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Refusal:
    words: str
    at: float


class KubernetesCluster:
    """Reads everything anew for each pass, from the store and not from a watch's cache: a pass that does not see what
    the pass before it created would act twice."""

    def __init__(self, api: KubernetesApi, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._api = api
        self._nodes = Nodes(api, clock)
        self._nodes_of: dict[JobKey, frozenset[str]] = {}
        self._clock = clock
        self._refusals: dict[str, dict[str, _Refusal]] = {}
        """By job UID, and the name of what was refused."""

    async def get_job(self, key: JobKey) -> Job | None:
        """Raises ApiError, and pydantic's ValidationError when the job's status is not one the operator wrote."""
        raw = await self._api.get(_job_path(key))
        if raw is None:
            self._nodes_of.pop(key, None)
            return None
        return convert.job(raw)

    async def observe(self, job: Job) -> Observed:
        """Raises ApiError."""
        namespace, name = f"/api/v1/namespaces/{job.key.namespace}", job.key.name
        claim = _claim_of(job)
        raw_pods, service, raw_claim = await asyncio.gather(
            self._api.list(f"{namespace}/pods", f"{LABEL_JOB}={name}"),
            self._api.get(f"{namespace}/services/{name}"),
            self._api.get(f"{namespace}/persistentvolumeclaims/{claim}") if claim else _nothing(),
        )
        pods = [(pod, raw) for raw in raw_pods if (pod := convert.pod(raw, job.uid)) is not None]
        nodes_used = frozenset(pod.node for pod, _ in pods if pod.node is not None)
        self._nodes_of[job.key] = nodes_used
        addresses = ((pod, convert.pod_address(raw)) for pod, raw in pods if not pod.foreign)
        # Asked for after the pods: one that the namespace's deletion took along must not pass for a failure.
        nodes, raw_namespace, report = await asyncio.gather(
            self._nodes.get(nodes_used),
            self._api.get(namespace),
            agents.job_report(name, [(pod, address) for pod, address in addresses if address is not None]),
        )
        return Observed(
            pods=tuple(pod for pod, _ in pods),
            nodes=nodes,
            service_exists=service is not None and _is_usable(service, job.uid),
            claim_exists=raw_claim is not None and (claim != claim_name(name) or _is_usable(raw_claim, job.uid)),
            report=report,
            namespace_ending=raw_namespace is None or "deletionTimestamp" in raw_namespace["metadata"],
            refused=self._refused(job),
        )

    async def write_status(self, job: Job, status: TrainingJobStatus) -> None:
        """Raises Conflict when the job was changed or deleted since it was read, else ApiError."""
        body: Json = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {
                "namespace": job.key.namespace,
                "name": job.key.name,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "spec": job.spec,
            "status": _without_empty_texts(status.model_dump(mode="json", by_alias=True, exclude_none=True)),
        }
        try:
            await self._api.request("PUT", f"{_job_path(job.key)}/status", body=body)
        except ApiError as error:
            if error.status in (404, 409):
                raise Conflict(f"{job.key} changed since it was read") from error
            raise

    async def delete_pod(self, job: Job, delete: DeletePod) -> None:
        """Raises ApiError."""
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": delete.uid},
        }
        if delete.force:
            body["gracePeriodSeconds"] = 0
        try:
            await self._api.request("DELETE", f"/api/v1/namespaces/{job.key.namespace}/pods/{delete.name}", body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def create(self, job: Job, create: Create) -> None:
        """Raises Rejected when the API server will not have the object as it is, else ApiError."""
        name = create.manifest["metadata"]["name"]
        try:
            await self._create(job, create.manifest)
        except Rejected as rejected:
            known = bool(self._refused(job))
            self._refusals.setdefault(job.uid, {})[name] = _Refusal(str(rejected), self._clock())
            # One event, however many pods are refused, and however often.
            if not known:
                await self.emit(job, Event("Warning", "CreateFailed", str(rejected)))
            raise
        self._refusals.get(job.uid, {}).pop(name, None)

    async def emit(self, job: Job, event: Event) -> None:
        """An event that cannot be posted is logged: nothing may depend on events."""
        _logger.info("%s: %s: %s", job.key, event.reason, event.message)
        try:
            await events.post(self._api, job, event, datetime.now(UTC))
        except ApiError as error:
            _logger.warning("%s: event %s was not posted: %s", job.key, event.reason, error)

    def jobs_on(self, node: str) -> tuple[JobKey, ...]:
        """The jobs that had pods on `node` when they were last observed."""
        return tuple(key for key, nodes in self._nodes_of.items() if node in nodes)

    def node_event(self, raw: Mapping[str, Any], *, deleted: bool) -> bool:
        """A watch saw this node. Returns whether jobs with pods on it must be looked at."""
        if deleted:
            self._nodes.deleted(raw["metadata"]["name"])
            return True
        return self._nodes.event(raw)

    def forget_all_but(self, keys: Iterable[JobKey], uids: Iterable[str]) -> None:
        """Drops what is remembered of jobs that no longer exist."""
        kept_keys, kept_uids = set(keys), set(uids)
        self._nodes_of = {key: nodes for key, nodes in self._nodes_of.items() if key in kept_keys}
        self._refusals = {uid: refusals for uid, refusals in self._refusals.items() if uid in kept_uids}

    def _refused(self, job: Job) -> str:
        """Why something that the job still lacks was refused lately: what is lacking is tried again all the time."""
        refusals = self._refusals.get(job.uid, {}).values()
        return next((refusal.words for refusal in refusals if self._clock() - refusal.at < _REFUSAL_SECONDS), "")

    async def _create(self, job: Job, manifest: Mapping[str, Any]) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        path = f"/api/v1/namespaces/{job.key.namespace}/{_PLURALS[kind]}"
        try:
            await self._api.request("POST", path, body=dict(manifest))
            return
        except ApiError as error:
            if error.status in _REFUSALS:
                raise Rejected(f"{kind} {name} was refused: {error.message}") from error
            if error.reason != "AlreadyExists":
                raise
        existing = await self._api.get(f"{path}/{name}")
        if existing is not None and not convert.is_owned(existing, job.uid):
            raise Rejected(f"{kind} {name} exists already and is not this job's: delete it, or rename the job")


def _without_empty_texts(value: Any) -> Any:
    """As Kubernetes' own types leave them out. API servers built by newer Go than their own take an empty text for
    null, and refuse it."""
    if isinstance(value, dict):
        return {name: _without_empty_texts(inner) for name, inner in value.items() if inner != ""}
    return [_without_empty_texts(entry) for entry in value] if isinstance(value, list) else value


def _is_usable(raw: Json, uid: str) -> bool:
    return convert.is_owned(raw, uid) and "deletionTimestamp" not in raw["metadata"]


def _claim_of(job: Job) -> str | None:
    """The claim that holds the job's checkpoints; None too when the spec cannot be read: it is judged elsewhere."""
    try:
        volume = CheckpointSpec.model_validate(job.spec.get("checkpoint")).volume
    except ValidationError:
        return None
    return volume.claim_name or claim_name(job.key.name)


def _job_path(key: JobKey) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{key.namespace}/{PLURAL}/{key.name}"


async def _nothing() -> None:
    return None
