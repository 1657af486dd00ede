"""What the benchmark of the operator measured, and its tables: pure."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

OPERATOR = "operator"
BARE = "bare client"
SUBJECTS = (OPERATOR, BARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One subject in one scenario. Seconds, bytes, CPU seconds of the subject's process."""

    subject: str
    scenario: str
    jobs: int
    replicas: int
    failed: int
    """Pods that ended at once."""
    start_seconds: float
    """From the first job's creation until all run."""
    reactions: list[float]
    """From a pod's end to its replacement's creation, as one watch saw them."""
    finishes: list[float]
    """From the end of a job's last pod to the job's end."""
    clean_requests: float
    """Of one job from its creation to its end, without failures and without status writes while it ran."""
    running_writes: float
    """Requests of one job per 10 s of running."""
    polls: float
    """Of agents, a job and second, while jobs ran."""
    start_cpu: float
    running_cpu: float
    """Share of a core while all jobs ran."""
    peak_bytes: int

    @property
    def jobs_per_second(self) -> float:
        return self.jobs / self.start_seconds


def table(trials: Sequence[Trial]) -> str:
    lines = [
        "| scenario | jobs x pods | pods that fail at once | who | jobs/s | reaction p50, s | p99, s | finish p99, s "
        "| requests / clean job | requests / 10 s running | polls / s | CPU, s / 1000 pods | CPU running | peak, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {t.scenario} | {t.jobs} x {t.replicas} | {t.failed} | {t.subject} | {t.jobs_per_second:.1f} "
        f"| {percentile(t.reactions, 50):.2f} | {percentile(t.reactions, 99):.2f} | {percentile(t.finishes, 99):.2f} "
        f"| {t.clean_requests:.1f} | {t.running_writes:.2f} | {t.polls:.2f} "
        f"| {1000 * t.start_cpu / (t.jobs * t.replicas):.1f} | {t.running_cpu:.0%} | {t.peak_bytes / 2**20:.0f} |"
        for t in trials
    ]
    return "\n".join(lines)


def percentile(values: Sequence[float], percent: int) -> float:
    """Not a number when there are no `values`."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def load(path: Path | None) -> list[Trial]:
    if path is None or not path.exists():
        return []
    return [Trial(**value) for value in json.loads(path.read_text())]


def save(path: Path | None, trials: Sequence[Trial]) -> None:
    if path is not None:
        path.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")
