"""The row of a job's dashboard on communication."""

from grafana_foundation_sdk.builders import dashboard

from dashboards.job_queries import of_job, per_round, rate
from dashboards.panels import Query, series

_OWN_WORK = (
    f"({rate('ringtrain_round_seconds_total')} - {rate('ringtrain_communication_exposed_seconds_total')}) / "
    f"{rate('ringtrain_rounds_total')}"
)
"""Seconds in a round, by rank."""


def communication(board: dashboard.Dashboard) -> None:
    """What of a round it takes, what goes over the links, what the codec does, and who is late."""
    board.with_row(dashboard.Row("Communication"))
    for panel in (
        series(
            "Exposed communication",
            "Share of the time in which training waited for communication, codec included, and did nothing else, by "
            "rank. The line is 10 %.",
            "percentunit",
            Query(
                f"{rate('ringtrain_communication_exposed_seconds_total')} / {rate('ringtrain_round_seconds_total')}",
                "rank {{rank}}",
            ),
            line=0.1,
        ),
        series(
            "Seconds of communication in a round",
            "Mean over ranks. What is not exposed runs beside the backward pass.",
            "s",
            Query(per_round("ringtrain_communication_seconds_total"), "all"),
            Query(per_round("ringtrain_communication_exposed_seconds_total"), "exposed"),
        ),
        series(
            "Codec and wire seconds in a round",
            "Mean over ranks, by kind of link and codec; seconds of parallel lanes add up.",
            "s",
            Query(
                per_round("ringtrain_codec_seconds_total", "link, codec"),
                "codec {{link}} {{codec}}",
            ),
            Query(
                per_round("ringtrain_wire_seconds_total", "link, codec"),
                "wire {{link}} {{codec}}",
            ),
        ),
        series(
            "Bytes sent in a round",
            "By one rank on average: as they are (raw), and as they went over the link.",
            "bytes",
            Query(
                per_round("ringtrain_communication_raw_bytes_total", "link, codec"),
                "raw {{link}}",
            ),
            Query(
                per_round("ringtrain_communication_sent_bytes_total", "link, codec"),
                "sent {{link}} {{codec}}",
            ),
        ),
        series(
            "Compression",
            "Raw bytes / bytes sent, by kind of link and codec.",
            "none",
            Query(
                f"sum by (link, codec) ({rate('ringtrain_communication_raw_bytes_total')}) / "
                f"sum by (link, codec) ({rate('ringtrain_communication_sent_bytes_total')})",
                "{{link}} {{codec}}",
            ),
        ),
        series(
            "Own work in a round",
            "Seconds in which each rank did not wait for others. One far above the others makes all of them wait: on "
            "average as long as it works more than the mean, where all have the same work.",
            "s",
            Query(_OWN_WORK, "rank {{rank}}"),
            Query(f"max({_OWN_WORK}) - avg({_OWN_WORK})", "wait for the slowest"),
        ),
        series(
            "Stragglers",
            "Ranks for which all others wait, as the coordinator finds every 20 rounds.",
            "none",
            Query(f"max by (rank) ({of_job('ringtrain_rank_straggler')})", "rank {{rank}}"),
        ),
        series(
            "Error of the codec",
            "What encoding between machines loses, as a part of what it encodes: of a sample, in this generation. "
            "Error feedback sends most of it later.",
            "percentunit",
            Query(f"max by (codec) ({of_job('ringtrain_compression_error')})", "{{codec}}"),
        ),
    ):
        board.with_panel(panel)
