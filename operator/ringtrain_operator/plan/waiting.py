"""What pods wait for, in one sentence for each cause rather than for each pod."""

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ringtrain_operator.plan.advice import with_advice
from ringtrain_operator.plan.observed import Pod, PodPhase

UNSCHEDULABLE = "Unschedulable"
_NO_CAUSE = frozenset({"", "ContainerCreating", "PodInitializing"})
_LONGEST_CAUSE = 400


def causes(pods: Iterable[Pod]) -> str:
    """`replicas 0-2: 0/3 nodes are available: ...; replica 3: ImagePullBackOff: ...`, each with what can be done about
    it, where that is known; empty when no cause is."""
    replicas: dict[str, list[int]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: pod.index):
        if pod.phase is PodPhase.PENDING and pod.waiting_reason not in _NO_CAUSE:
            replicas[_cause(pod)].append(pod.index)
    return "; ".join(f"{name(indices)}: {cause}" for cause, indices in replicas.items())


def name(replicas: Sequence[int]) -> str:
    """`replica 3` or `replicas 0-2, 5`; `replicas` ascend."""
    if len(replicas) == 1:
        return f"replica {replicas[0]}"
    runs: list[list[int]] = []
    for index in replicas:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return "replicas " + ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _cause(pod: Pod) -> str:
    if pod.waiting_reason == UNSCHEDULABLE and pod.waiting_message:
        text = pod.waiting_message
    else:
        text = f"{pod.waiting_reason}: {pod.waiting_message}".removesuffix(": ")
    return with_advice(textwrap.shorten(text, _LONGEST_CAUSE, placeholder=" ..."))
