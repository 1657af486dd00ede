"""GET /metrics: Prometheus metrics of all ranks of the replica, computed when they are scraped."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ringtrain.agent.checkpoint_metrics import checkpoint_metrics
from ringtrain.agent.communication_metrics import communication_metrics
from ringtrain.contract.generation import Generation
from ringtrain.contract.phases import Phase
from ringtrain.contract.report import AgentStatus, Progress

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
        yield from _progress_metrics(sample.status, labels)
        yield from communication_metrics(sample.status, labels)
        yield from checkpoint_metrics(sample.status, labels)


class Metrics:
    """The text of a scrape."""

    def __init__(self, sample: Callable[[], Sample]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ReplicaCollector(sample))

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _gauge(name: str, documentation: str, labels: dict[str, str], value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, documentation, labels=list(labels))
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
    report = sample.status.job_report
    if report is None:
        return
    if report.generation is not None:
        generation = Generation.parse(report.generation)
        yield _gauge("ringtrain_generation_epoch", "Epoch of the current generation.", labels, generation.epoch)
        yield _gauge("ringtrain_generation_attempt", "Attempt of the current generation.", labels, generation.attempt)
    yield _gauge(
        "ringtrain_absent_replicas", "Replicas without a coordinator connection.", labels, len(report.absent_replicas)
    )
    if report.last_checkpoint is not None:
        checkpoint = report.last_checkpoint
        yield _gauge("ringtrain_last_checkpoint_round", "Round of the newest checkpoint.", labels, checkpoint.round)
        yield _gauge(
            "ringtrain_last_checkpoint_timestamp_seconds", "When it was committed.", labels, checkpoint.time.timestamp()
        )


def _rank_metrics(status: AgentStatus, labels: dict[str, str]) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
    names = [*labels, "rank"]
    ages = GaugeMetricFamily("ringtrain_heartbeat_age_seconds", "Seconds since a rank's last heartbeat.", labels=names)
    restarts = CounterMetricFamily(
        "ringtrain_rank_restarts", "How often a rank was started again in its pod.", labels=names
    )
    phases = GaugeMetricFamily("ringtrain_rank_phase", "1 for the phase that a rank is in.", labels=[*names, "phase"])
    for rank in status.ranks:
        values = [*labels.values(), str(rank.rank)]
        ages.add_metric(values, rank.beat_age)
        restarts.add_metric(values, rank.restarts)
        for phase in Phase:
            phases.add_metric([*values, phase.value], rank.phase is phase)
    yield ages
    yield restarts
    yield phases


def _progress_metrics(status: AgentStatus, labels: dict[str, str]) -> Iterable[GaugeMetricFamily]:
    progress = _progress(status)
    if progress is None:
        return
    yield _gauge("ringtrain_round", "Rounds finished.", labels, progress.round)
    yield _gauge("ringtrain_total_rounds", "Rounds to train.", labels, progress.total_rounds)
    if progress.loss is not None:
        yield _gauge(
            "ringtrain_loss", "Mean training loss per token of the last round, in nats.", labels, progress.loss
        )
    if progress.tokens_per_second is not None:
        yield _gauge(
            "ringtrain_tokens_per_second", "Tokens per second of the whole job.", labels, progress.tokens_per_second
        )
    if progress.communication_share is not None:
        yield _gauge(
            "ringtrain_communication_share",
            "Exposed communication / round time of the last round.",
            labels,
            progress.communication_share,
        )


def _progress(status: AgentStatus) -> Progress | None:
    """Every rank's progress tells of the whole job; before a new pod has any of its own, the coordinator's does."""
    own = next((rank.progress for rank in status.ranks if rank.progress is not None), None)
    return own or (status.job_report.progress if status.job_report else None)
