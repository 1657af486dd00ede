"""What a replica's ranks spent on communication: counters start over with every generation, and when its warm-up
ends."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from ringtrain.contract.report import AgentStatus, CommunicationTotals, LinkTotals, Progress

_BY_RANK: tuple[tuple[str, str, Callable[[CommunicationTotals], float]], ...] = (
    (
        "ringtrain_rounds",
        "Rounds finished in this generation, since its warm-up if that is over.",
        lambda totals: totals.rounds,
    ),
    ("ringtrain_round_seconds", "Seconds of these rounds.", lambda totals: totals.round_seconds),
    (
        "ringtrain_communication_seconds",
        "Seconds in which at least one all-reduce ran.",
        lambda totals: totals.communication_seconds,
    ),
    (
        "ringtrain_communication_exposed_seconds",
        "Seconds in which training waited for communication and did nothing else.",
        lambda totals: totals.exposed_seconds,
    ),
)
_BY_LINK: tuple[tuple[str, str, Callable[[LinkTotals], float]], ...] = (
    (
        "ringtrain_communication_raw_bytes",
        "Bytes that a ring all-reduce of the gradients as they are would send.",
        lambda link: link.raw_bytes,
    ),
    ("ringtrain_communication_sent_bytes", "Bytes sent.", lambda link: link.sent_bytes),
    ("ringtrain_codec_seconds", "Seconds of encoding, decoding and adding.", lambda link: link.codec_seconds),
    ("ringtrain_wire_seconds", "Seconds of sending and of waiting for peers.", lambda link: link.wire_seconds),
)


def communication_metrics(
    status: AgentStatus, labels: dict[str, str]
) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
    """By rank, and by kind of link: `intra` inside the machine, `inter` between machines."""
    found = [(str(rank.rank), totals) for rank in status.ranks if (totals := _totals(rank.progress)) is not None]
    for name, documentation, of_rank in _BY_RANK:
        family = CounterMetricFamily(name, documentation, labels=[*labels, "rank"])
        for rank, totals in found:
            family.add_metric([*labels.values(), rank], of_rank(totals))
        yield family
    for name, documentation, of_link in _BY_LINK:
        family = CounterMetricFamily(name, documentation, labels=[*labels, "rank", "link", "codec"])
        for rank, totals in found:
            for kind, codec, link in _links(totals):
                family.add_metric([*labels.values(), rank, kind, codec], of_link(link))
        yield family
    errors = GaugeMetricFamily(
        "ringtrain_compression_error",
        "What encoding between machines loses / what it encodes (L2 norms), of a sample, in this generation.",
        labels=[*labels, "rank", "codec"],
    )
    for rank, totals in found:
        if totals.inter.error is not None:
            errors.add_metric([*labels.values(), rank, totals.codec], totals.inter.error)
    yield errors


def _totals(progress: Progress | None) -> CommunicationTotals | None:
    return progress.communication if progress is not None else None


def _links(totals: CommunicationTotals) -> Iterator[tuple[str, str, LinkTotals]]:
    yield "intra", "none", totals.intra
    yield "inter", totals.codec, totals.inter
