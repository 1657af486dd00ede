"""What a run shows: one moment of the job in plain values, and the words for them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringtrain.contract.exit_codes import reason
from ringtrain.contract.report import AgentStatus, Progress
from ringtrain_operator.api.status import TERMINAL, TrainingJobStatus
from ringtrain_operator.plan.observed import Pod


@dataclass(frozen=True, slots=True)
class ReplicaState:
    index: int
    pod: str
    state: str
    """One or two words: what its pod or its ranks are doing."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    status: TrainingJobStatus
    progress: Progress | None
    """Of the last pass's report; None while members gather for the first time."""
    replicas: tuple[ReplicaState, ...] = ()


def take(status: TrainingJobStatus, pods: Sequence[Pod], agents: Mapping[int, AgentStatus]) -> Snapshot:
    newest = {pod.index: pod for pod in sorted(pods, key=lambda pod: pod.epoch)}
    reports = [agents[index].job_report for index in sorted(agents)]
    report = next((found for found in reports if found is not None), None)
    replicas = tuple(
        ReplicaState(index, newest[index].name, _state(newest[index], agents.get(index), status.phase in TERMINAL))
        if index in newest
        else ReplicaState(index, "", "no pod")
        for index in range(status.replicas)
    )
    return Snapshot(status, report.progress if report else None, replicas)


def _state(pod: Pod, agent: AgentStatus | None, over: bool) -> str:
    if pod.exit_code is not None:
        return "done" if pod.exit_code == 0 else f"ended: {reason(pod.exit_code)}"
    if pod.deleting:
        return "stopping"
    if agent is None:
        return "ending" if over else "starting"
    if not agent.live:
        return f"not live: {agent.reason}"
    return ", ".join(sorted({rank.phase.value for rank in agent.ranks})) or "starting"


@dataclass(frozen=True, slots=True)
class History:
    """What a summary needs of the whole run."""

    first: Progress | None = None
    """The first that was seen with a loss."""
    last: Progress | None = None

    def after(self, snapshot: Snapshot) -> "History":
        progress = snapshot.progress
        if progress is None or progress.loss is None:
            return self
        return History(self.first or progress, progress)


def thousands(value: float) -> str:
    """A rate in at most four characters and a unit: 950, 12.3k, 1.2M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def facts(snapshot: Snapshot) -> list[str]:
    """`round 20/120`, `loss 3.1234`, ... as far as they are known."""
    status, progress = snapshot.status, snapshot.progress
    found = []
    if status.total_rounds:
        found.append(f"round {status.round}/{status.total_rounds}")
    if status.loss:
        found.append(f"loss {float(status.loss):.4f}")
    if progress is not None and progress.tokens_per_second is not None:
        found.append(f"{thousands(progress.tokens_per_second)} tokens/s")
    if status.communication is not None:
        found.append(f"communication {status.communication.share}")
    if status.last_checkpoint is not None:
        found.append(f"checkpoint {status.last_checkpoint.round}")
    if status.restarts:
        found.append(f"restarts {status.restarts}")
    return found
