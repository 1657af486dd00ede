"""The coordinator's view of the whole job."""

from ringtrain.contract.phases import Phase
from ringtrain.contract.report import JobReport
from ringtrain.coordinator.state import State


def job_report(state: State) -> JobReport:
    """What agents, and through them the operator, are told once a second."""
    generation = state.started if state.own_group else state.generation
    return JobReport(
        generation=str(generation) if generation else None,
        phase=_phase(state),
        progress=state.progress,
        last_checkpoint=state.last_checkpoint,
        absent_replicas=tuple(replica for replica in range(state.replicas) if replica not in state.members),
        finished=state.finished,
        coordinator_id=state.coordinator_id,
        notices=state.notices,
        rank_failures=state.rank_failures,
        stragglers=tuple(sorted(state.stragglers)),
    )


def _phase(state: State) -> Phase:
    """That of the lowest rank in the current generation: its ranks go through the phases together. Ranks without a
    session train while they run."""
    if state.finished:
        return Phase.DONE
    if state.own_group:
        return Phase.TRAINING
    current = str(state.generation)
    inside = [beat for _, beat in sorted(state.beats.items()) if beat.generation == current]
    return inside[0].phase if inside else Phase.WAITING
