"""The pods of a job, as the API gives them, for those who look at them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ringtrain_operator.cluster import convert
from ringtrain_operator.plan.observed import Pod, PodPhase


def pods_of(uid: str, raw: Iterable[Mapping[str, Any]]) -> tuple[Pod, ...]:
    """Those of the job of that UID, by replica and epoch."""
    found = (convert.pod(pod, uid) for pod in raw)
    return tuple(
        sorted((pod for pod in found if pod and not pod.foreign), key=lambda pod: (pod.index, pod.epoch, pod.created))
    )


def has_log(pod: Pod) -> bool:
    """Whether its container was ever started, as far as the pod tells."""
    return pod.phase is PodPhase.RUNNING or pod.exit_code is not None


def is_running(pod: Pod) -> bool:
    return pod.phase is PodPhase.RUNNING and pod.exit_code is None
