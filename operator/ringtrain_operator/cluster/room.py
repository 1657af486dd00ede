"""What is free on the nodes of a Kubernetes cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ringtrain_operator.cluster import convert
from ringtrain_operator.cluster.api import ApiError, KubernetesApi
from ringtrain_operator.cluster.kinds import Kind, path
from ringtrain_operator.plan.need import Need, amounts, need_of
from ringtrain_operator.plan.room import Place, Room, room

Object = Mapping[str, Any]

REUSED = 4
"""What was seen is seen again for so many times as long as it took to look: at most a fifth of the time goes there."""
LEAST_REUSED_SECONDS = 0.5
SCHEDULED_WITHIN = timedelta(seconds=60)
"""A pod that no scheduler has looked at for so long will not take any place soon."""
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
_HIDDEN = (
    "scheduling.gang Operator needs an operator that may list nodes and the pods of all namespaces (the chart without "
    "watchNamespaces, and with watchNodes): install it so, or set scheduling.gang to another value"
)


class Rooms:
    """`clock` is monotonic, in seconds."""

    def __init__(self, api: KubernetesApi, clock: Callable[[], float], *, may_read: bool) -> None:
        """Without `may_read`, nothing is asked for, and nothing seen."""
        self._api = api
        self._clock = clock
        self._may_read = may_read
        self._turn = asyncio.Lock()
        self._found: Room | None = None
        self._reused_until = float("-inf")
        self._taken = 0
        self._places: dict[str, Place] = {}
        """Each node as it was last seen, without pods."""

    @asynccontextmanager
    async def look(self) -> AsyncIterator[Room]:
        """Nobody else is shown anything until the block ends, and then with what was created in it. Raises ApiError."""
        async with self._turn:
            yield await self._look()

    def take(self) -> None:
        """A pod was created."""
        self._taken += 1
        self._found = None

    def is_news(self, node: Object) -> bool:
        """Whether a node that a watch shows is not what was last seen of it."""
        return self._places.get(node["metadata"]["name"]) != _place(node)

    async def _look(self) -> Room:
        if not self._may_read:
            return Room(hidden=_HIDDEN)
        began = self._clock()
        if self._found is not None and began < self._reused_until:
            return self._found
        taken = self._taken
        try:
            nodes = await self._api.list(path(Kind.NODES))
            pods = await self._api.list(path(Kind.PODS), fields=_NOT_ENDED)
        except ApiError as error:
            if error.status == 403:
                return Room(hidden=_HIDDEN)
            raise
        self._places = {node["metadata"]["name"]: _place(node) for node in nodes}
        found = _room(nodes, pods, datetime.now(UTC))
        if taken == self._taken:
            self._found = found
            self._reused_until = self._clock() + max(LEAST_REUSED_SECONDS, REUSED * (self._clock() - began))
        return found


def _room(nodes: Sequence[Object], pods: Sequence[Object], now: datetime) -> Room:
    taken: list[tuple[str, Need]] = []
    waiting: list[Need] = []
    for pod in pods:
        if (node := pod["spec"].get("nodeName")) is not None:
            taken.append((node, need_of(pod)))
        elif _may_be_scheduled(pod, now):
            waiting.append(need_of(pod))
    return room(map(_place, nodes), taken, waiting)


def _place(node: Object) -> Place:
    return Place(
        name=node["metadata"]["name"],
        free=amounts(node["status"].get("allocatable") or {}),
        closed=bool(node["spec"].get("unschedulable")) or not convert.node(node).ready,
        labels=node["metadata"].get("labels") or {},
        taints=node["spec"].get("taints") or (),
    )


def _may_be_scheduled(pod: Object, now: datetime) -> bool:
    """It waits for room, as far as its scheduler says, or has only just come."""
    if pod["spec"].get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    for_room = any(c["type"] == "PodScheduled" and "Insufficient " in c.get("message", "") for c in conditions)
    return for_room or now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) < SCHEDULED_WITHIN
