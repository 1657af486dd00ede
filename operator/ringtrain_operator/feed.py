"""From what the watches and the lists show to keys in the queue, and to what health and metrics need to know."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from ringtrain_operator.cluster.cache import key_of
from ringtrain_operator.cluster.kinds import Kind
from ringtrain_operator.cluster.kubernetes import KubernetesCluster
from ringtrain_operator.health import WatchHealth
from ringtrain_operator.plan.observed import JobKey

Object = Mapping[str, Any]


class Feed:
    """`clock` is monotonic, in seconds; `add` queues a key; `keep` is told which jobs exist."""

    def __init__(
        self,
        add: Callable[[JobKey], None],
        cluster: KubernetesCluster,
        health: WatchHealth,
        keep: Callable[[Set[JobKey]], None],
        clock: Callable[[], float],
    ) -> None:
        self._add = add
        self._cluster = cluster
        self._health = health
        self._keep = keep
        self._clock = clock

    def event(self, kind: Kind, raw: Object, *, deleted: bool) -> None:
        """A watch delivered `raw`."""
        metadata = raw["metadata"]
        if deleted:
            self._health.deleted(kind, metadata["uid"])
        else:
            self._health.event(kind, metadata["uid"], metadata["resourceVersion"], self._clock())
        for key in self._cluster.seen(kind, raw, deleted=deleted):
            self._add(key)

    def listed(self, kind: Kind, items: Sequence[Object], asked: float) -> None:
        """A list that was asked for at `asked` showed all objects of `kind`, their metadata at least."""
        versions = {raw["metadata"]["uid"]: raw["metadata"]["resourceVersion"] for raw in items}
        behind = self._health.listed(kind, versions, asked, self._clock())
        if kind is Kind.JOBS:
            self._keep({key_of(kind, raw) for raw in items})
        for key in self._cluster.listed(kind, items, behind, asked):
            self._add(key)
