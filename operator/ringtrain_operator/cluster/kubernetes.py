"""The Cluster protocol on Kubernetes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from ringtrain.contract.report import JobReport
from ringtrain_operator.api.spec import GROUP, KIND, VERSION, CheckpointSpec
from ringtrain_operator.api.status import TERMINAL, TrainingJobStatus, as_stored
from ringtrain_operator.cluster import convert, events, pod_groups
from ringtrain_operator.cluster.agents import Agents
from ringtrain_operator.cluster.api import ApiError, Json, KubernetesApi
from ringtrain_operator.cluster.cache import Cache, KnownPod, key_of
from ringtrain_operator.cluster.claims import Claims
from ringtrain_operator.cluster.kinds import RESOURCES, Kind, path
from ringtrain_operator.cluster.nodes import Nodes
from ringtrain_operator.cluster.protocol import Conflict, Rejected
from ringtrain_operator.cluster.refusals import Refusals
from ringtrain_operator.cluster.room import Rooms
from ringtrain_operator.plan import pod_group
from ringtrain_operator.plan.advice import with_advice
from ringtrain_operator.plan.defaults import JobDefaults
from ringtrain_operator.plan.failures import has_ended
from ringtrain_operator.plan.members import current_pods
from ringtrain_operator.plan.names import LABEL_JOB, claim_name
from ringtrain_operator.plan.observed import Job, JobKey, Observed, Pod
from ringtrain_operator.plan.result import Create, DeletePod, EndPod, Event
from ringtrain_operator.plan.room import Room

_KINDS = {
    "Pod": Kind.PODS,
    "Service": Kind.SERVICES,
    "PersistentVolumeClaim": Kind.CLAIMS,
    "NetworkPolicy": Kind.POLICIES,
}
_REFUSALS = frozenset({400, 403, 404, 413, 422})

_logger = logging.getLogger(__name__)


class KubernetesCluster:
    """Passes read what the watches have shown, which `seen` and `listed` are told, and what they wrote themselves. A
    job of which that is not current is read from the server, anew in each pass."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Callable[[], float],
        kinds: Collection[Kind] = tuple(Kind),
        agents_from: Sequence[Mapping[str, Any]] | None = None,
        defaults: JobDefaults | None = None,
    ) -> None:
        """`clock` is monotonic, in seconds. Only `kinds` may be read; without nodes, all are taken to be ready.
        `agents_from` is what `Observed` has, and `defaults` what jobs have."""
        self._api = api
        self._cache = Cache(kinds)
        self._agents_from = agents_from
        self._defaults = defaults or JobDefaults()
        self._nodes = Nodes(api, clock, may_read=Kind.NODES in kinds)
        self._rooms = Rooms(api, clock, may_read=Kind.NODES in kinds)
        self._looked: set[JobKey] = set()
        """Jobs whose last pass looked for room."""
        self._claims = Claims(api, self._cache, clock)
        self._nodes_of: dict[JobKey, frozenset[str]] = {}
        self._written: dict[str, datetime] = {}
        """When statuses were, by job UID."""
        self._agents = Agents(clock)
        self._clock = clock
        self._refusals = Refusals(clock)

    async def get_job(self, key: JobKey) -> Job | None:
        """Raises ApiError, and pydantic's ValidationError when the job's status is not one the operator wrote."""
        self._looked.discard(key)
        if not self._cache.is_current(key):
            await self._read(key)
        job = self._cache.job(key)
        if job is None:
            self._nodes_of.pop(key, None)
            return None
        return replace(job, written=self._written.get(job.uid), defaults=self._defaults.of(key.namespace))

    async def observe(self, job: Job) -> Observed:
        """`job` is as `get_job` has just given it. Raises ApiError."""
        name, known = job.key.name, self._cache.pods(job)
        nodes_used = frozenset(each.pod.node for each in known if each.pod.node is not None)
        self._nodes_of[job.key] = nodes_used
        # Of the namespace it is asked after the pods were seen: one that the namespace's deletion took along must not
        # pass for a failure.
        nodes, ending, claim_exists, report = await asyncio.gather(
            self._nodes.get(nodes_used),
            self._namespace_ending(job, [each.pod for each in known]),
            self._claim_exists(job),
            self._report(job, known),
        )
        return Observed(
            pods=tuple(each.pod for each in known),
            nodes=nodes,
            service_exists=self._cache.has(job, Kind.SERVICES, name),
            claim_exists=claim_exists,
            agents_from=self._agents_from,
            policy_exists=self._agents_from is not None and self._cache.has(job, Kind.POLICIES, name),
            report=report,
            namespace_ending=ending,
            refused=self._refusals.words(job.uid),
        )

    @asynccontextmanager
    async def look_for_room(self, job: Job) -> AsyncIterator[Room]:
        """Raises ApiError."""
        self._looked.add(job.key)
        async with self._rooms.look() as found:
            yield found

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
            "status": as_stored(status),
        }
        try:
            stored = await self._api.request("PUT", f"{_job_path(job.key)}/status", body=body)
        except ApiError as error:
            self._cache.outdated(job.key)
            if error.status in (404, 409):
                raise Conflict(f"{job.key} changed since it was read") from error
            raise
        self._cache.put(Kind.JOBS, stored, self._clock())
        self._written[job.uid] = datetime.now(UTC)

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
            left = await self._api.request("DELETE", path(Kind.PODS, job.key.namespace, delete.name), body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            self._cache.drop(Kind.PODS, delete.uid, self._clock())
        else:
            # Where nothing has to end first, the answer is the pod's last state.
            if "deletionTimestamp" in left.get("metadata", {}):
                self._cache.put(Kind.PODS, left, self._clock())

    async def end_pod(self, job: Job, end: EndPod) -> None:
        """Raises ApiError. The kubelet ends a pod whose deadline is over, and leaves it and its logs where they are."""
        body: Json = {"metadata": {"uid": end.uid}, "spec": {"activeDeadlineSeconds": 1}}
        try:
            left = await self._api.request("PATCH", path(Kind.PODS, job.key.namespace, end.name), body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
        else:
            self._cache.put(Kind.PODS, left, self._clock())

    async def create(self, job: Job, create: Create) -> None:
        """Raises Rejected when the API server will not have the object as it is, else ApiError."""
        name = f"{create.manifest['kind']} {create.manifest['metadata']['name']}"
        try:
            if create.manifest["kind"] == pod_group.KIND:
                await pod_groups.apply(self._api, job.key.namespace, create.manifest)
            else:
                await self._create(job, create.manifest)
        except Rejected as rejected:
            known = bool(self._refusals.words(job.uid))
            self._refusals.refused(job.uid, name, str(rejected))
            # One event, however many pods are refused, and however often.
            if not known:
                await self.emit(job, Event("Warning", "CreateFailed", str(rejected)))
            raise
        self._refusals.taken(job.uid, name)

    async def delete_job(self, job: Job) -> None:
        """Raises Conflict when the job was changed since it was read, else ApiError."""
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": job.uid, "resourceVersion": job.resource_version},
            "propagationPolicy": "Background",
        }
        try:
            await self._api.request("DELETE", _job_path(job.key), body=body)
        except ApiError as error:
            self._cache.outdated(job.key)
            if error.status == 409:
                raise Conflict(f"{job.key} changed since it was read") from error
            if error.status != 404:
                raise

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

    def seen(self, kind: Kind, raw: Mapping[str, Any], *, deleted: bool) -> tuple[JobKey, ...]:
        """A watch saw this object. The jobs that must be looked at for it."""
        if kind is Kind.NODES:
            name = raw["metadata"]["name"]
            if deleted:
                self._nodes.deleted(name)
                return self.jobs_on(name)
            changed = self._nodes.event(raw)
            waiting = self._looked if self._looked and self._rooms.is_news(raw) else ()
            return (*waiting, *(self.jobs_on(name) if changed else ()))
        waiting = self._looked if kind is Kind.PODS and (deleted or convert.has_ended(raw)) else ()
        if deleted:
            self._cache.drop(kind, raw["metadata"]["uid"], self._clock())
            return (key_of(kind, raw), *waiting)
        return (key_of(kind, raw), *waiting) if self._cache.put(kind, raw, self._clock()) else ()

    def listed(
        self, kind: Kind, items: Sequence[Mapping[str, Any]], behind: Collection[str], asked: float
    ) -> tuple[JobKey, ...]:
        """A list that was asked for at `asked` showed all objects of `kind`, their metadata at least; of those whose
        UIDs are in `behind` the watch has not told yet. The jobs that must be looked at."""
        if kind is Kind.NODES:
            for raw in items:
                if raw["metadata"]["uid"] in behind:
                    self._nodes.deleted(raw["metadata"]["name"])
            return ()
        missed = self._cache.listed(kind, items, behind, asked)
        if kind is not Kind.JOBS:
            return tuple(missed)
        keys = tuple(key_of(kind, raw) for raw in items)
        self._forget_all_but(keys, {raw["metadata"]["uid"] for raw in items})
        return (*missed.difference(keys), *keys)

    def _forget_all_but(self, keys: Iterable[JobKey], uids: Collection[str]) -> None:
        """Drops what is remembered of jobs that no longer exist."""
        kept = set(keys)
        self._nodes_of = {key: nodes for key, nodes in self._nodes_of.items() if key in kept}
        self._refusals.forget_all_but(uids)
        self._written = {uid: time for uid, time in self._written.items() if uid in uids}
        self._agents.forget_all_but(kept)
        self._claims.forget_old()

    async def _read(self, key: JobKey) -> None:
        """From the store, the job first: what is seen of its pods must not be older than its status."""
        asked = self._clock()
        self._cache.read_job(key, await self._api.get(_job_path(key)), asked, self._clock())
        asked = self._clock()
        found = await asyncio.gather(
            *(
                self._api.list(path(kind, key.namespace), f"{RESOURCES[kind].selector}={key.name}")
                for kind in self._cache.children
            )
        )
        self._cache.read(key, dict(zip(self._cache.children, found, strict=True)), asked, self._clock())

    async def _report(self, job: Job, known: Sequence[KnownPod]) -> JobReport | None:
        """A replica that has to be replaced waits for no agent: it may be the slow one."""
        own = [each for each in known if not each.pod.foreign]
        if any(has_ended(pod) or pod.deleting for pod in current_pods(job.status.members, [each.pod for each in own])):
            return self._agents.last_report(job.key)
        addresses = [(each.pod, each.address) for each in own if each.address is not None]
        return await self._agents.job_report(job.key, addresses)

    async def _namespace_ending(self, job: Job, pods: Sequence[Pod]) -> bool:
        """It is asked for when pods went, or could not be made: else it does not matter."""
        there = {pod.uid for pod in pods if not pod.deleting}
        lost = any(member.pod_uid is not None and member.pod_uid not in there for member in job.status.members)
        if job.status.phase in TERMINAL or not (lost or self._refusals.words(job.uid)):
            return False
        raw = await self._api.get(f"/api/v1/namespaces/{job.key.namespace}")
        return raw is None or "deletionTimestamp" in raw["metadata"]

    async def _claim_exists(self, job: Job) -> bool:
        claim = _claim_of(job)
        return claim is not None and await self._claims.has(job, claim)

    async def _create(self, job: Job, manifest: Mapping[str, Any]) -> None:
        kind, name = _KINDS[manifest["kind"]], manifest["metadata"]["name"]
        try:
            made = await self._api.request("POST", path(kind, job.key.namespace), body=dict(manifest))
        except ApiError as error:
            if error.status in _REFUSALS:
                raise Rejected(with_advice(f"{manifest['kind']} {name} was refused: {error.message}")) from error
            if error.reason != "AlreadyExists":
                raise
        else:
            self._cache.put(kind, made, self._clock())
            if kind is Kind.PODS:
                self._rooms.take()
            return
        existing = await self._api.get(path(kind, job.key.namespace, name))
        if existing is None:
            return
        if convert.owner(existing) != job.uid and not _is_left(kind, existing, job):
            raise Rejected(
                f"{manifest['kind']} {name} exists already and is not this job's: delete it, or rename the job"
            )
        self._cache.put(kind, existing, self._clock())


def _is_left(kind: Kind, raw: Json, job: Job) -> bool:
    """A claim that an earlier job of the name has left, to be gone on with."""
    labels = raw["metadata"].get("labels") or {}
    return kind is Kind.CLAIMS and not convert.owner(raw) and labels.get(LABEL_JOB) == job.key.name


def _claim_of(job: Job) -> str | None:
    """The claim that holds the job's checkpoints; None too when the spec cannot be read: it is judged elsewhere."""
    try:
        volume = CheckpointSpec.model_validate(job.spec.get("checkpoint")).volume
    except ValidationError:
        return None
    return volume.claim_name or claim_name(job.key.name)


def _job_path(key: JobKey) -> str:
    return path(Kind.JOBS, key.namespace, key.name)
