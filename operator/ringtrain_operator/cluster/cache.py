"""What the watches, the lists and the answers to writes have shown of jobs and their children.

Passes read it, so that they need not ask the API server. Writes are seen in it at once: whatever a pass did, the next
one knows. Where a list shows what no watch brought, or a write was refused because its object had changed, the job is
not current, and is to be read from the server.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from ringtrain_operator.cluster import convert
from ringtrain_operator.cluster.kinds import Kind
from ringtrain_operator.cluster.objects import Objects
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import Job, JobKey, Pod

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KnownPod:
    pod: Pod
    owner: str
    """UID."""
    address: str | None
    """Where its agent can be asked."""


@dataclass(frozen=True, slots=True)
class Child:
    """A child that is no pod."""

    name: str
    owner: str
    """UID."""
    deleting: bool


class Cache:
    """Times are in seconds of any monotonic clock, and come from the caller."""

    def __init__(self, kinds: Collection[Kind]) -> None:
        """`kinds` are those that are watched."""
        self.children = tuple(kind for kind in kinds if kind not in (Kind.JOBS, Kind.NODES))
        """The kinds of what jobs own."""
        self._jobs = Objects[Job]()
        self._pods = Objects[KnownPod]()
        self._children: dict[Kind, Objects[Child]] = {
            kind: Objects() for kind in self.children if kind is not Kind.PODS
        }
        self._unlisted = {Kind.JOBS, *self.children}
        self._behind: dict[str, JobKey] = {}
        """By UID: objects that a list showed, and whose event is missing."""
        self._outdated: set[JobKey] = set()

    def is_current(self, key: JobKey) -> bool:
        """Whether all that is known of the job can be relied on."""
        return not self._unlisted and key not in self._outdated and key not in self._behind.values()

    def outdated(self, key: JobKey) -> None:
        """The job is not what is known of it."""
        self._outdated.add(key)

    def job(self, key: JobKey) -> Job | None:
        # A job and its successor of the same name are both known for a moment.
        return max(self._jobs.of(key), key=lambda job: job.created, default=None)

    def pods(self, job: Job) -> list[KnownPod]:
        """Those that carry the job's label."""
        known = self._pods.of(job.key)
        return [each if each.owner == job.uid else replace(each, pod=replace(each.pod, foreign=True)) for each in known]

    def has(self, job: Job, kind: Kind, name: str) -> bool:
        """Whether the child is there, and is the job's; or is a claim that an earlier job of its name has left."""
        owners = (job.uid, "") if kind is Kind.CLAIMS else (job.uid,)
        there = self._children[kind].of(job.key)
        return any(Child(name, owner, deleting=False) in there for owner in owners)

    def put(self, kind: Kind, raw: Object, at: float) -> bool:
        """A watch, or an answer that came at `at`, showed the object. Whether that is news."""
        key, uid, version = key_of(kind, raw), raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]
        self._behind.pop(uid, None)
        if kind is Kind.JOBS:
            try:
                return self._jobs.put(key, uid, version, convert.job(raw), at)
            except ValidationError:
                # Whoever reads it from the server is told what is wrong.
                self.outdated(key)
                return True
        owner = convert.owner(raw)
        if kind is Kind.PODS:
            pod = convert.pod(raw, owner)
            return pod is not None and self._pods.put(
                key, uid, version, KnownPod(pod, owner, convert.pod_address(raw)), at
            )
        child = Child(raw["metadata"]["name"], owner, "deletionTimestamp" in raw["metadata"])
        return self._children[kind].put(key, uid, version, child, at)

    def drop(self, kind: Kind, uid: str, at: float) -> JobKey | None:
        """The object is gone. The job it was of; None when it was not known."""
        self._behind.pop(uid, None)
        return self._of(kind).drop(uid, at)

    def listed(self, kind: Kind, items: Iterable[Object], behind: Collection[str], asked: float) -> set[JobKey]:
        """A list that was asked for at `asked` showed all objects of `kind`, their metadata at least; the events of
        those whose UIDs are in `behind` are missing. The jobs that must be looked at."""
        keys = {raw["metadata"]["uid"]: key_of(kind, raw) for raw in items}
        self._unlisted.discard(kind)
        missed = self._of(kind).keep(keys, asked)
        late = {uid: keys[uid] for uid in behind}
        self._behind.update(late)
        return {*missed, *late.values()}

    def read(self, key: JobKey, children: Mapping[Kind, Collection[Object]], asked: float, now: float) -> None:
        """The job's `children`, as the server listed them when it was asked at `asked`."""
        for kind, items in children.items():
            for raw in items:
                self.put(kind, raw, now)
            self._of(kind).keep({raw["metadata"]["uid"] for raw in items}, asked, key)

    def read_job(self, key: JobKey, raw: Object | None, asked: float, now: float) -> None:
        """As the server had it when it was asked at `asked`. Raises pydantic's ValidationError when its status is not
        one that the operator wrote."""
        if raw is not None:
            metadata = raw["metadata"]
            self._jobs.put(key, metadata["uid"], metadata["resourceVersion"], convert.job(raw), now)
        self._jobs.keep({raw["metadata"]["uid"]} if raw is not None else (), asked, key)
        self._outdated.discard(key)

    def _of(self, kind: Kind) -> Objects[Any]:
        match kind:
            case Kind.JOBS:
                return self._jobs
            case Kind.PODS:
                return self._pods
            case _:
                return self._children[kind]


def key_of(kind: Kind, raw: Object) -> JobKey:
    """The job that the object is, or belongs to."""
    metadata = raw["metadata"]
    return JobKey(metadata["namespace"], metadata["name"] if kind is Kind.JOBS else metadata["labels"][LABEL_JOB])
