"""What Prometheus sees of the operator and of its jobs."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.plan.observed import JobKey

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PER_JOB: tuple[tuple[str, str, Callable[[TrainingJobStatus], int]], ...] = (
    ("ringtrain_job_round", "Rounds finished.", lambda status: status.round),
    ("ringtrain_job_total_rounds", "Rounds to train; 0 while unknown.", lambda status: status.total_rounds),
    ("ringtrain_job_restarts", "Replacements of pods so far.", lambda status: status.restarts),
    ("ringtrain_job_ready_replicas", "Replicas whose pod is ready.", lambda status: status.ready),
)


class OperatorMetrics:
    """One registry of its own; `queue_depth` is asked at each scrape."""

    def __init__(self, queue_depth: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter(
            "ringtrain_operator_reconcile_total", "Passes over a job.", ["result"], registry=self.registry
        )
        self.pass_seconds = Histogram(
            "ringtrain_operator_reconcile_seconds", "Seconds a pass took.", buckets=_BUCKETS, registry=self.registry
        )
        self.restarts = Counter(
            "ringtrain_operator_restarts_total", "Replaced pods.", ["reason"], registry=self.registry
        )
        self.api_errors = Counter(
            "ringtrain_operator_api_errors_total",
            "Failed requests to the Kubernetes API; code 0: no answer.",
            ["verb", "code"],
            registry=self.registry,
        )
        self.jobs = JobCollector(self.restarts)
        self.registry.register(self.jobs)
        self.registry.register(_Depth(queue_depth))


class JobCollector(Collector):
    """Gauges of the jobs that exist: the series of a job go with it."""

    def __init__(self, restarts: Counter) -> None:
        self._restarts = restarts
        self._jobs: dict[JobKey, TrainingJobStatus] = {}

    def seen(self, key: JobKey, status: TrainingJobStatus | None) -> None:
        """`status` after a pass; None: the job is gone."""
        before = self._jobs.pop(key, None)
        if status is None:
            return
        self._jobs[key] = status
        if before is not None:
            for failure in _new_failures(before, status):
                self._restarts.labels(failure.reason).inc()

    def keep(self, keys: set[JobKey]) -> None:
        """Forgets all other jobs."""
        self._jobs = {key: status for key, status in self._jobs.items() if key in keys}

    def collect(self) -> Iterable[Metric]:
        jobs = list(self._jobs.items())
        phases = GaugeMetricFamily("ringtrain_operator_jobs", "Jobs by phase.", labels=["phase"])
        for phase in JobPhase:
            phases.add_metric([phase], sum(status.phase is phase for _, status in jobs))
        yield phases
        for name, help_text, value in _PER_JOB:
            gauge = GaugeMetricFamily(name, help_text, labels=["namespace", "training_job"])
            for key, status in jobs:
                gauge.add_metric([key.namespace, key.name], value(status))
            yield gauge
        current = GaugeMetricFamily(
            "ringtrain_job_phase", "1 for the phase.", labels=["namespace", "training_job", "phase"]
        )
        for key, status in jobs:
            current.add_metric([key.namespace, key.name, status.phase], 1)
        yield current


def _new_failures(before: TrainingJobStatus, after: TrainingJobStatus) -> list[Failure]:
    old = {(failure.time, failure.pod) for failure in before.failures}
    return [failure for failure in after.failures if (failure.time, failure.pod) not in old]


class _Depth(Collector):
    def __init__(self, depth: Callable[[], int]) -> None:
        self._depth = depth

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("ringtrain_operator_queue_depth", "Jobs that wait for a pass.", value=self._depth())
