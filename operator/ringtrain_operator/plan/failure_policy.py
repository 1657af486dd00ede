"""What is done about a failure: the job's own rules in their order, then what is right for most jobs."""

from collections.abc import Sequence, Set

from ringtrain.contract import exit_codes
from ringtrain_operator.api.spec import FailureAction, FailureRule

DISRUPTION_TARGET = "DisruptionTarget"
"""The condition of a pod that the cluster ends for needs of its own: preemption, eviction, drain, node lost."""
POD_DELETED = "PodDeleted"
CONTAINER_STATUS_UNKNOWN = "ContainerStatusUnknown"
EVICTED_OVER_LIMIT = "EvictedOverLimit"
"""The pod used more than its own limits."""
SPEC_CHANGED = "SpecChanged"
"""The operator's own doing: a pod that could not run is replaced by one of the corrected spec."""

DEFAULT_RULES = (
    FailureRule(action=FailureAction.RESTART, reasons=(EVICTED_OVER_LIMIT,)),
    FailureRule(action=FailureAction.RESTART_UNCOUNTED, pod_conditions=(DISRUPTION_TARGET,)),
    FailureRule(action=FailureAction.RESTART_UNCOUNTED, reasons=(POD_DELETED, CONTAINER_STATUS_UNKNOWN)),
    FailureRule(action=FailureAction.RESTART_UNCOUNTED, exit_codes=tuple(sorted(exit_codes.NOT_COUNTED))),
    FailureRule(action=FailureAction.FAIL_JOB, exit_codes=tuple(sorted(exit_codes.NEVER_RESTARTED))),
)
"""Tried after the job's own. What none of them fits is restarted and counted."""


def decide(rules: Sequence[FailureRule], reason: str, exit_code: int | None, pod_conditions: Set[str]) -> FailureAction:
    """`rules` are the job's own; `pod_conditions` are those that are True."""
    if reason == SPEC_CHANGED:
        return FailureAction.RESTART_UNCOUNTED
    fitting = (rule.action for rule in (*rules, *DEFAULT_RULES) if _fits(rule, reason, exit_code, pod_conditions))
    return next(fitting, FailureAction.RESTART)


def _fits(rule: FailureRule, reason: str, exit_code: int | None, pod_conditions: Set[str]) -> bool:
    return (
        (not rule.exit_codes or exit_code in rule.exit_codes)
        and (not rule.reasons or reason in rule.reasons)
        and (not rule.pod_conditions or not pod_conditions.isdisjoint(rule.pod_conditions))
    )
