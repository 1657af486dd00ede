"""From what the watches and the lists show to keys in the queue, and to what health and metrics need to know."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from ringtrain_operator.cluster import convert
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.health import WatchHealth
from ringtrain_operator.metrics import JobCollector
from ringtrain_operator.plan.names import LABEL_JOB
from ringtrain_operator.plan.observed import JobKey

Object = Mapping[str, Any]


class Kind(StrEnum):
    JOBS = "trainingjobs"
    PODS = "pods"
    NODES = "nodes"


class Feed:
    """`clock` is monotonic, in seconds; `add` queues a key."""

    def __init__(
        self,
        add: Callable[[JobKey], None],
        cluster: KubernetesCluster,
        health: WatchHealth,
        metrics: JobCollector,
        clock: Callable[[], float],
    ) -> None:
        self._add = add
        self._cluster = cluster
        self._health = health
        self._metrics = metrics
        self._clock = clock

    def event(self, kind: Kind, raw: Object, *, deleted: bool) -> None:
        """A watch delivered `raw`."""
        metadata = raw["metadata"]
        if deleted:
            self._health.deleted(kind, metadata["uid"])
        else:
            self._health.event(kind, metadata["uid"], metadata["resourceVersion"], self._clock())
        match kind:
            case Kind.JOBS:
                self._add(convert.key(raw))
            case Kind.PODS:
                self._add(_owner(raw))
            case Kind.NODES:
                if self._cluster.node_event(raw, deleted=deleted):
                    for key in self._cluster.jobs_on(metadata["name"]):
                        self._add(key)

    def listed(self, kind: Kind, items: Sequence[Object], asked: float) -> None:
        """A list that was asked for at `asked` showed all objects of `kind`, their metadata at least."""
        versions = {raw["metadata"]["uid"]: raw["metadata"]["resourceVersion"] for raw in items}
        self._health.listed(kind, versions, asked, self._clock())
        if kind is Kind.JOBS:
            keys = [convert.key(raw) for raw in items]
            self._cluster.forget_all_but(keys, versions)
            self._metrics.keep(set(keys))
            for key in keys:
                self._add(key)


def _owner(pod: Object) -> JobKey:
    return JobKey(pod["metadata"]["namespace"], pod["metadata"]["labels"][LABEL_JOB])
