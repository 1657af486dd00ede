"""What Prometheus sees of the operator and of its jobs: all of it is here."""

from collections.abc import Callable, Iterable, Set
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ringtrain_operator.api.status import Failure, JobPhase, TrainingJobStatus
from ringtrain_operator.plan.observed import JobKey

_PASS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
_DETECTION_BUCKETS = (0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)
_RECOVERY_BUCKETS = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_JOB = ("namespace", "training_job")
_GAUGES: tuple[tuple[str, str, Callable[[TrainingJobStatus], float | None]], ...] = (
    ("ringtrain_job_round", "Rounds finished.", lambda status: status.round),
    ("ringtrain_job_total_rounds", "Rounds to train; 0 while unknown.", lambda status: status.total_rounds),
    ("ringtrain_job_replicas", "Replicas wanted.", lambda status: status.replicas),
    ("ringtrain_job_ready_replicas", "Replicas whose pod is ready.", lambda status: status.ready),
    (
        "ringtrain_job_last_checkpoint_timestamp_seconds",
        "When the newest checkpoint was committed.",
        lambda status: status.last_checkpoint.time.timestamp() if status.last_checkpoint else None,
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[TrainingJobStatus], float]], ...] = (
    (
        "ringtrain_job_restarts",
        "Restarts after failures so far, of pods and of ranks in their pods; what fails together is one.",
        lambda status: status.restarts,
    ),
    (
        "ringtrain_job_counted_restarts",
        "Those that spent the budget of faultTolerance.maxRestarts.",
        lambda status: status.counted_restarts,
    ),
)


class OperatorMetrics:
    """One registry of its own; `queue_depth` is asked at each scrape: None while another operator leads."""

    def __init__(self, queue_depth: Callable[[], int | None]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.passes = Counter(
            "ringtrain_operator_reconcile_total", "Passes over a job.", ["result"], registry=self.registry
        )
        self.pass_seconds = Histogram(
            "ringtrain_operator_reconcile_seconds",
            "Seconds a pass took.",
            buckets=_PASS_BUCKETS,
            registry=self.registry,
        )
        self._requests = Counter(
            "ringtrain_operator_api_requests_total",
            "Requests to the Kubernetes API, each attempt; code 0: no answer.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "ringtrain_operator_api_request_seconds",
            "Seconds until an attempt was answered or given up.",
            ["verb"],
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.jobs = JobCollector(self.registry)
        self.registry.register(self.jobs)
        self.registry.register(_Depth(queue_depth))

    def requested(self, verb: str, status: int, seconds: float) -> None:
        """An attempt of a request ended with an HTTP status, or with 0."""
        self._requests.labels(verb, str(status)).inc()
        self._request_seconds.labels(verb).observe(seconds)


class JobCollector(Collector):
    """Metrics of the jobs that exist: the series of a job go with it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._restarts = Counter(
            "ringtrain_operator_restarts_total",
            "Replaced pods, and ranks that were started again in their pods.",
            ["reason"],
            registry=registry,
        )
        self._detection = Histogram(
            "ringtrain_operator_detection_seconds",
            "Seconds from the end of a container, or of its node's readiness, until the operator acts on it.",
            buckets=_DETECTION_BUCKETS,
            registry=registry,
        )
        self._recovery = Histogram(
            "ringtrain_operator_recovery_seconds",
            "Seconds from a failure, as status.failures dates it, until its job was seen to train again.",
            buckets=_RECOVERY_BUCKETS,
            registry=registry,
        )
        self._jobs: dict[JobKey, TrainingJobStatus] = {}
        self._failed: dict[JobKey, datetime] = {}
        """When the first failure happened of those that are not recovered from."""

    def seen(self, key: JobKey, status: TrainingJobStatus | None, now: datetime) -> None:
        """`status` after a pass at `now`; None: the job is gone."""
        before = self._jobs.pop(key, None)
        if status is None:
            self._failed.pop(key, None)
            return
        self._jobs[key] = status
        if before is not None:
            for failure in _new_failures(before, status):
                self._restarts.labels(failure.reason).inc()
                if failure.happened is not None:
                    self._detection.observe(max(0.0, (failure.time - failure.happened).total_seconds()))
                self._failed.setdefault(key, failure.time)
        if status.phase is JobPhase.RUNNING and key in self._failed:
            self._recovery.observe(max(0.0, (now - self._failed.pop(key)).total_seconds()))

    def keep(self, keys: Set[JobKey]) -> None:
        """Forgets all other jobs."""
        self._jobs = {key: status for key, status in self._jobs.items() if key in keys}
        self._failed = {key: time for key, time in self._failed.items() if key in keys}

    def collect(self) -> Iterable[Metric]:
        jobs = list(self._jobs.items())
        phases = GaugeMetricFamily("ringtrain_operator_jobs", "Jobs by phase.", labels=["phase"])
        for phase in JobPhase:
            phases.add_metric([phase], sum(status.phase is phase for _, status in jobs))
        yield phases
        for name, documentation, of_job in _GAUGES:
            gauge = GaugeMetricFamily(name, documentation, labels=_JOB)
            for key, status in jobs:
                if (value := of_job(status)) is not None:
                    gauge.add_metric([key.namespace, key.name], value)
            yield gauge
        for name, documentation, count in _COUNTERS:
            counter = CounterMetricFamily(name, documentation, labels=_JOB)
            for key, status in jobs:
                counter.add_metric([key.namespace, key.name], count(status))
            yield counter
        current = GaugeMetricFamily("ringtrain_job_phase", "1 for the phase.", labels=[*_JOB, "phase"])
        for key, status in jobs:
            current.add_metric([key.namespace, key.name, status.phase], 1)
        yield current


def _new_failures(before: TrainingJobStatus, after: TrainingJobStatus) -> list[Failure]:
    old = {(failure.time, failure.pod) for failure in before.failures}
    return [failure for failure in after.failures if (failure.time, failure.pod) not in old]


class _Depth(Collector):
    def __init__(self, depth: Callable[[], int | None]) -> None:
        self._depth = depth

    def collect(self) -> Iterable[Metric]:
        depth = self._depth()
        yield GaugeMetricFamily(
            "ringtrain_operator_leading", "1 while it cares for jobs; 0: another one does.", value=depth is not None
        )
        yield GaugeMetricFamily("ringtrain_operator_queue_depth", "Jobs that wait for a pass.", value=depth or 0)
