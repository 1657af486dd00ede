"""Nodes that a job keeps off for a time: because it fails there again and again and not elsewhere, or because one was
found unfit, which is enough at once."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from ringtrain.contract import exit_codes
from ringtrain.contract.exit_codes import ExitCode
from ringtrain_operator.api.spec import FailureAction, FaultTolerance, NodeExclusion
from ringtrain_operator.api.status import ExcludedNode, Failure, TrainingJobStatus
from ringtrain_operator.plan.failure_policy import CONTAINER_STATUS_UNKNOWN
from ringtrain_operator.plan.failures import NODE_LOST
from ringtrain_operator.plan.incidents import grouped
from ringtrain_operator.plan.result import Event

_NODES_DOING = frozenset({NODE_LOST, CONTAINER_STATUS_UNKNOWN, exit_codes.reason(ExitCode.HANG)})
_UNFIT = exit_codes.reason(ExitCode.UNFIT)
_FIRST_SIGNAL = 128


def updated(
    status: TrainingJobStatus, tolerance: FaultTolerance, now: datetime
) -> tuple[TrainingJobStatus, tuple[Event, ...]]:
    """`status`, which has all failures, with the nodes excluded that are to be now; and an event for each change."""
    if tolerance.node_exclusion is None and tolerance.preflight is None:
        return status.model_copy(update={"excluded_nodes": ()}), ()
    policy = tolerance.node_exclusion or NodeExclusion()
    window = timedelta(seconds=policy.window_seconds)
    kept = [node for node in status.excluded_nodes if now - node.time < window]
    over = [node.name for node in status.excluded_nodes if node not in kept]
    recent = [
        failure
        for failure in status.failures
        if now - failure.time < window and failure.action is not FailureAction.IGNORE
    ]
    unfit = [failure for failure in recent if failure.reason == _UNFIT]
    suspicious = [failure for failure in recent if tolerance.node_exclusion and _may_be_the_nodes(failure)]
    known = {node.name for node in kept}
    # Each once.
    bad = dict.fromkeys([*_nodes(unfit), *_suspects(suspicious, policy.after_failures)])
    new = [name for name in bad if name not in known]
    room = max(0, policy.max_nodes - len(kept))
    found = [ExcludedNode(name=name, time=now, reason=_reason(name, [*unfit, *suspicious])) for name in new[:room]]
    events = (
        *(Event("Normal", "NodeReadmitted", f"new pods may run on node {name} again") for name in over),
        *(
            Event("Warning", "NodeExcluded", f"no new pod of the job runs on node {n.name} for {window}: {n.reason}")
            for n in found
        ),
    )
    return status.model_copy(update={"excluded_nodes": (*kept, *found)}), events


def _suspects(failures: Sequence[Failure], enough: int) -> list[str]:
    """Nodes with so many failures, which are most of all: what fails everywhere is the job's own fault."""
    nodes = _nodes(failures)
    return [node for node, count in Counter(nodes).items() if count >= enough and 2 * count > len(nodes)]


def _nodes(failures: Sequence[Failure]) -> list[str]:
    """Each once for each incident: what several ranks suffer there at once is one failure of the node."""
    told = (dict.fromkeys(failure.node for failure in group) for group in grouped(failures))
    return [node for nodes in told for node in nodes if node is not None]


def _may_be_the_nodes(failure: Failure) -> bool:
    """Neither the training code's, nor the configuration's, nor what the cluster ends for needs of its own."""
    code = failure.exit_code
    by_signal = code is not None and code > _FIRST_SIGNAL and failure.reason == exit_codes.reason(code)
    return failure.reason in _NODES_DOING or by_signal


def _reason(node: str, failures: Sequence[Failure]) -> str:
    reasons = Counter(failure.reason for failure in failures if failure.node == node)
    return ", ".join(f"{count} x {reason}" for reason, count in reasons.items())
