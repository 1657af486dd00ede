"""Whether a pod's node can be counted on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ringtrain_operator.plan.observed import Node, Pod


@dataclass(frozen=True, slots=True)
class NodeHealth:
    nodes: Mapping[str, Node]
    loss_seconds: float
    """Seconds a node may be not ready before it is given up."""
    now: datetime

    def is_lost(self, pod: Pod) -> bool:
        """The pod's node is gone, or was not ready for too long: nothing on it can be waited for."""
        return self.seconds_left(pod) == 0

    def is_in_doubt(self, pod: Pod) -> bool:
        """The pod's node is gone or not ready."""
        return self.seconds_left(pod) is not None

    def unready_since(self, pod: Pod) -> datetime | None:
        """When the pod's node stopped being ready; None while it is ready, and where nobody knows."""
        node = self.nodes.get(pod.node) if pod.node is not None else None
        return node.since if node is not None and not node.ready else None

    def seconds_left(self, pod: Pod) -> float | None:
        """Until the pod's node is given up; None while it is ready, or while the pod has none."""
        if pod.node is None:
            return None
        node = self.nodes.get(pod.node)
        if node is None:
            return 0
        if node.ready:
            return None
        return max(0, self.loss_seconds - (self.now - node.since).total_seconds())
