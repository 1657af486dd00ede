"""How far the job is, and how fast: the same of all replicas."""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily

from ringtrain.contract.report import AgentStatus, Progress

_GAUGES: tuple[tuple[str, str, Callable[[Progress], float | None]], ...] = (
    ("ringtrain_round", "Rounds finished.", lambda progress: progress.round),
    ("ringtrain_total_rounds", "Rounds to train.", lambda progress: progress.total_rounds),
    ("ringtrain_loss", "Mean training loss per token of the last round, in nats.", lambda progress: progress.loss),
    (
        "ringtrain_evaluation_loss",
        "Mean loss per token of the last evaluation, in nats.",
        lambda progress: progress.evaluation_loss,
    ),
    (
        "ringtrain_gradient_norm",
        "L2 norm of the last round's mean gradient, before clipping. Of the built-in trainer.",
        lambda progress: progress.gradient_norm,
    ),
    (
        "ringtrain_tokens_per_second",
        "Tokens per second of the whole job.",
        lambda progress: progress.tokens_per_second,
    ),
    (
        "ringtrain_model_flops_per_second",
        "Operations per second of the model's passes, of the whole job; what is computed twice to save memory counts "
        "once. Of the built-in trainer.",
        lambda progress: progress.flops_per_second,
    ),
    (
        "ringtrain_peak_flops_per_second",
        "What all devices of the job could do by their data sheets, where these are known. Of the built-in trainer.",
        lambda progress: progress.peak_flops_per_second,
    ),
    (
        "ringtrain_communication_share",
        "Exposed communication / round time of the last round.",
        lambda progress: progress.communication_share,
    ),
)


def progress_metrics(status: AgentStatus, labels: dict[str, str]) -> Iterable[GaugeMetricFamily]:
    """Every family at any time, without a value while it is unknown."""
    progress = _progress(status)
    for name, documentation, of_progress in _GAUGES:
        family = GaugeMetricFamily(name, documentation, labels=list(labels))
        if progress is not None and (value := of_progress(progress)) is not None:
            family.add_metric(list(labels.values()), value)
        yield family


def _progress(status: AgentStatus) -> Progress | None:
    """Every rank's progress tells of the whole job; before a new pod has any of its own, the coordinator's does."""
    own = next((rank.progress for rank in status.ranks if rank.progress is not None), None)
    return own or (status.job_report.progress if status.job_report else None)
