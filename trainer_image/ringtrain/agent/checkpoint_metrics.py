"""What a replica's ranks saved, as Prometheus counters: they start over with every generation."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily

from ringtrain.contract.report import AgentStatus, CheckpointTotals

_COUNTERS: tuple[tuple[str, str, Callable[[CheckpointTotals], float]], ...] = (
    ("ringtrain_snapshots", "Snapshots in the machine's memory.", lambda totals: totals.snapshots),
    (
        "ringtrain_snapshot_seconds",
        "Seconds in which training stood still for snapshots.",
        lambda totals: totals.snapshot_seconds,
    ),
    (
        "ringtrain_checkpoint_write_seconds",
        "Seconds from the snapshot to the commit of committed checkpoints, while training went on.",
        lambda totals: totals.write_seconds,
    ),
    (
        "ringtrain_checkpoint_written_bytes",
        "Bytes of committed checkpoints that the rank wrote to the volume.",
        lambda totals: totals.written_bytes,
    ),
)


def checkpoint_metrics(status: AgentStatus, labels: dict[str, str]) -> Iterable[CounterMetricFamily]:
    """By rank; saves to the volume by outcome too: committed, failed, skipped."""
    found = [
        (str(rank.rank), rank.progress.checkpoints)
        for rank in status.ranks
        if rank.progress is not None and rank.progress.checkpoints is not None
    ]
    outcomes = CounterMetricFamily(
        "ringtrain_checkpoints", "Saves to the volume, by outcome.", labels=[*labels, "rank", "outcome"]
    )
    for rank, totals in found:
        for outcome in ("committed", "failed", "skipped"):
            outcomes.add_metric([*labels.values(), rank, outcome], getattr(totals, outcome))
    yield outcomes
    for name, documentation, value in _COUNTERS:
        family = CounterMetricFamily(name, documentation, labels=[*labels, "rank"])
        for rank, totals in found:
            family.add_metric([*labels.values(), rank], value(totals))
        yield family
