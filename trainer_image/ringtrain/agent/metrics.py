"""GET /metrics: Prometheus metrics of all ranks of the replica, computed when they are scraped.

Here and in the modules beside it whose names end in _metrics are all that a trainer has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ringtrain.agent.checkpoint_metrics import checkpoint_metrics
from ringtrain.agent.communication_metrics import communication_metrics
from ringtrain.agent.progress_metrics import progress_metrics
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, JobReport

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """What the metrics are computed from."""

    namespace: str
    status: AgentStatus
    generations_entered: int
    connected: bool
    """To the coordinator."""


class _ReplicaCollector(Collector):
    def __init__(self, sample: Callable[[], Sample]) -> None:
        self._sample = sample

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        sample = self._sample()
        labels = {
            "training_job": sample.status.job,
            "namespace": sample.namespace,
            "replica": str(sample.status.replica),
        }
        yield from _replica_metrics(sample, labels)
        yield from _rank_metrics(sample.status, labels)
        yield from _report_metrics(sample.status.job_report, labels)
        yield from progress_metrics(sample.status, labels)
        yield from communication_metrics(sample.status, labels)
        yield from checkpoint_metrics(sample.status, labels)


class Metrics:
    """The text of a scrape."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_ReplicaCollector(sample))

    def text(self) -> bytes:
        return generate_latest(self.registry)


def _gauge(name: str, documentation: str, labels: dict[str, str], value: float | None) -> GaugeMetricFamily:
    """Without a value where there is none: so a scrape names every metric at any time."""
    family = GaugeMetricFamily(name, documentation, labels=list(labels))
    if value is not None:
        family.add_metric(list(labels.values()), value)
    return family


def _replica_metrics(sample: Sample, labels: dict[str, str]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    yield _gauge("ringtrain_live", "1 while every rank's heartbeat is fresh.", labels, sample.status.live)
    yield _gauge("ringtrain_connected", "1 while connected to the coordinator.", labels, sample.connected)
    yield _gauge("ringtrain_pod_epoch", "The epoch that this pod was started with.", labels, sample.status.epoch)
    entered = CounterMetricFamily(
        "ringtrain_generations", "Generations that this replica entered.", labels=list(labels)
    )
    entered.add_metric(list(labels.values()), sample.generations_entered)
    yield entered


def _report_metrics(report: JobReport | None, labels: dict[str, str]) -> Iterable[GaugeMetricFamily]:
    """What the coordinator told last: the same of all replicas, about the whole job."""
    told = report.generation if report is not None else None
    generation = Generation.parse(told) if told is not None else None
    checkpoint = report.last_checkpoint if report is not None else None
    of_job: tuple[tuple[str, str, float | None], ...] = (
        (
            "ringtrain_generation_epoch",
            "Epoch of the current generation.",
            generation.epoch if generation is not None else None,
        ),
        (
            "ringtrain_generation_attempt",
            "Attempt of the current generation.",
            generation.attempt if generation is not None else None,
        ),
        (
            "ringtrain_absent_replicas",
            "Replicas without a coordinator connection.",
            len(report.absent_replicas) if report is not None else None,
        ),
        (
            "ringtrain_last_checkpoint_round",
            "Round of the newest checkpoint.",
            checkpoint.round if checkpoint is not None else None,
        ),
        (
            "ringtrain_last_checkpoint_timestamp_seconds",
            "When it was committed.",
            checkpoint.time.timestamp() if checkpoint is not None else None,
        ),
    )
    for name, documentation, value in of_job:
        yield _gauge(name, documentation, labels, value)


def _rank_metrics(status: AgentStatus, labels: dict[str, str]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    names = [*labels, "rank"]
    ages = GaugeMetricFamily("ringtrain_heartbeat_age_seconds", "Seconds since a rank's last heartbeat.", labels=names)
    restarts = CounterMetricFamily(
        "ringtrain_rank_restarts", "How often a rank was started again in its pod.", labels=names
    )
    product = GaugeMetricFamily(
        "ringtrain_preflight_product_seconds",
        "Seconds of a rank's matrix product in its pre-flight check.",
        labels=names,
    )
    exchange = GaugeMetricFamily(
        "ringtrain_preflight_exchange_seconds", "Seconds of its exchange with its quickest peer there.", labels=names
    )
    late = GaugeMetricFamily("ringtrain_rank_straggler", "1 for a rank for which all others wait.", labels=names)
    stragglers = status.job_report.stragglers if status.job_report is not None else ()
    phases = GaugeMetricFamily("ringtrain_rank_phase", "1 for the phase that a rank is in.", labels=[*names, "phase"])
    for rank in status.ranks:
        values = [*labels.values(), str(rank.rank)]
        ages.add_metric(values, rank.beat_age)
        restarts.add_metric(values, rank.restarts)
        late.add_metric(values, rank.rank in stragglers)
        if rank.fitness is not None:
            product.add_metric(values, rank.fitness.product)
            if rank.fitness.exchange is not None:
                exchange.add_metric(values, rank.fitness.exchange)
        for phase in Phase:
            phases.add_metric([*values, phase.value], rank.phase is phase)
    yield ages
    yield restarts
    yield late
    yield product
    yield exchange
    yield phases
