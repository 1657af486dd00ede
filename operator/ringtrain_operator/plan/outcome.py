"""How a job ends: its last status, the event of it, and what is cleaned up."""

from dataclasses import replace

from ringtrain_operator.api.spec import FaultTolerance, TrainingJobSpec
from ringtrain_operator.api.status import TrainingJobStatus
from ringtrain_operator.plan import finish, holding
from ringtrain_operator.plan.budget import GivenUp
from ringtrain_operator.plan.one_pass import Pass
from ringtrain_operator.plan.result import Event, Plan


def success(this: Pass, status: TrainingJobStatus, spec: TrainingJobSpec | None, events: tuple[Event, ...]) -> Plan:
    """Without `spec`, when it cannot be read."""
    tolerance = spec.fault_tolerance if spec is not None else FaultTolerance()
    total_rounds = spec.trainer.rounds if spec is not None and spec.trainer is not None else None
    status = finish.succeeded(this.job, status, this.pods, tolerance, total_rounds, this.now)
    event = Event("Normal", "Succeeded", status.message)
    return cleaned_up(this, status, spec, (*events, event))


def failure(
    this: Pass, spec: TrainingJobSpec, status: TrainingJobStatus, given_up: GivenUp, events: tuple[Event, ...]
) -> Plan:
    status = finish.failed(status, given_up, this.now)
    event = Event("Warning", given_up.reason, given_up.message)
    return cleaned_up(this, status, spec, (*events, event))


def cleaned_up(this: Pass, status: TrainingJobStatus, spec: TrainingJobSpec | None, events: tuple[Event, ...]) -> Plan:
    """Of a terminal `status`. Places are given back whatever the job's policy for its pods."""
    left = finish.clean_up(status, spec, this.pods, this.health, this.now)
    return replace(left, deletes=(*left.deletes, *holding.all_deletes(this.holders, this.health)), events=events)
