"""The nodes that pods are on: those that the watch has shown, and others asked for and remembered for a moment."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ringtrain_operator.cluster import convert
from ringtrain_operator.cluster.api import KubernetesApi
from ringtrain_operator.plan.observed import Node

FRESH_SECONDS = 2.0
_UNKNOWN = datetime.min.replace(tzinfo=UTC)


class Nodes:
    def __init__(self, api: KubernetesApi, clock: Callable[[], float], *, may_read: bool = True) -> None:
        """Without `may_read`, every node is taken to be ready."""
        self._api = api
        self._clock = clock
        self._may_read = may_read
        self._known: dict[str, tuple[Node | None, float]] = {}
        """With the time when it was asked for; infinity: the watch tells when it changes."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, names: Iterable[str]) -> dict[str, Node]:
        """Those of `names` that exist."""
        if not self._may_read:
            return {name: Node(name=name, ready=True, since=_UNKNOWN) for name in names}
        nodes = await asyncio.gather(*map(self._get, names))
        return {node.name: node for node in nodes if node is not None}

    def event(self, raw: Mapping[str, Any]) -> bool:
        """A watch saw this node. Returns whether its readiness differs from what was known."""
        node = convert.node(raw)
        before, _ = self._known.get(node.name, (None, 0.0))
        self._known[node.name] = (node, float("inf"))
        return before is None or before.ready != node.ready

    def deleted(self, name: str) -> None:
        """A watch saw this node's deletion, or missed something about it."""
        self._known.pop(name, None)
        self._locks.pop(name, None)

    async def _get(self, name: str) -> Node | None:
        async with self._locks[name]:
            node, at = self._known.get(name, (None, float("-inf")))
            if self._clock() - at > FRESH_SECONDS:
                raw = await self._api.get(f"/api/v1/nodes/{name}")
                node = convert.node(raw) if raw is not None else None
                self._known[name] = (node, self._clock())
            return node
