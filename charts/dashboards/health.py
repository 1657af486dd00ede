"""The operator itself."""

from grafana_foundation_sdk.builders import dashboard

from dashboards.panels import Query, begin, number, series

_RATE = "[$__rate_interval]"
_OWN = "and on (instance) ringtrain_operator_leading == 1"


def health() -> dashboard.Dashboard:
    """Is it there, does it keep up, does the API server answer, how long do recoveries take."""
    return (
        begin("ringtrain-operator", "Ringtrain / Operator", "Whether the operator keeps up with its jobs")
        .with_panel(
            number(
                "Operators",
                "That Prometheus reaches: all, of which one leads.",
                "none",
                Query("count(ringtrain_operator_leading) or vector(0)", "operators"),
            )
        )
        .with_panel(
            number(
                "Waiting jobs",
                "Jobs that wait for a worker. More than a few for long: raise operator.concurrency.",
                "none",
                Query("sum(ringtrain_operator_queue_depth)", "jobs"),
            )
        )
        .with_panel(
            number(
                "Failed passes",
                "Share of the passes over jobs that failed and are tried again.",
                "percentunit",
                Query(
                    _share(
                        'ringtrain_operator_reconcile_total{result!="success"}', "ringtrain_operator_reconcile_total"
                    ),
                    "failed",
                ),
                line=0.05,
            )
        )
        .with_panel(
            number(
                "Failed requests",
                "Share of the API requests that got no answer, or a server's error, or were refused.",
                "percentunit",
                Query(
                    _share(
                        'ringtrain_operator_api_requests_total{code!~"2..|404|409"}',
                        "ringtrain_operator_api_requests_total",
                    ),
                    "failed",
                ),
                line=0.05,
            )
        )
        .with_panel(
            number(
                "Recoveries",
                "Of jobs that failed and train again, since the operator started.",
                "none",
                Query("sum(ringtrain_operator_recovery_seconds_count)", "recoveries"),
            )
        )
        .with_panel(
            number(
                "Memory", "Of the operator.", "bytes", Query(f"max(process_resident_memory_bytes {_OWN})", "resident")
            )
        )
        .with_panel(
            series(
                "Jobs by phase",
                "All that the operator cares for.",
                "none",
                Query("max by (phase) (ringtrain_operator_jobs)", "{{phase}}"),
                stacked=True,
            )
        )
        .with_panel(
            series(
                "Passes",
                "Over jobs, per second, by result.",
                "ops",
                Query(f"sum by (result) (rate(ringtrain_operator_reconcile_total{_RATE}))", "{{result}}"),
            )
        )
        .with_panel(
            series(
                "Seconds of a pass",
                "Its median and its slowest one percent.",
                "s",
                *_quantiles("ringtrain_operator_reconcile_seconds"),
            )
        )
        .with_panel(
            series(
                "API requests",
                "Per second, by verb and answer; 0 is none.",
                "reqps",
                Query(f"sum by (verb, code) (rate(ringtrain_operator_api_requests_total{_RATE}))", "{{verb}} {{code}}"),
            )
        )
        .with_panel(
            series(
                "Seconds of a request",
                "Its median and its slowest one percent.",
                "s",
                *_quantiles("ringtrain_operator_api_request_seconds"),
            )
        )
        .with_panel(
            series(
                "Restarts by reason",
                "Within ten minutes.",
                "none",
                Query("sum by (reason) (increase(ringtrain_operator_restarts_total[10m])) or vector(0)", "{{reason}}"),
            )
        )
        .with_panel(
            series(
                "Failures by the seconds to notice them",
                "How many were acted on within so many seconds after a container or a node ended, in the time shown.",
                "none",
                Query("sum by (le) (increase(ringtrain_operator_detection_seconds_bucket[$__range]))", "{{le}} s"),
            )
        )
        .with_panel(
            series(
                "Recoveries by duration",
                "How many lasted at most so many seconds, from the failure to training again, in the time shown.",
                "none",
                Query("sum by (le) (increase(ringtrain_operator_recovery_seconds_bucket[$__range]))", "{{le}} s"),
            )
        )
        .with_panel(
            series(
                "CPU",
                "Cores that the operator keeps busy.",
                "none",
                Query(f"max(rate(process_cpu_seconds_total{_RATE}) {_OWN})", "cores"),
            )
        )
    )


def _quantiles(histogram: str) -> tuple[Query, Query]:
    rate = f"sum by (le) (rate({histogram}_bucket{_RATE}))"
    return (
        Query(f"histogram_quantile(0.5, {rate})", "median"),
        Query(f"histogram_quantile(0.99, {rate})", "99 %"),
    )


def _share(some: str, all_of_them: str) -> str:
    """0 where there were none at all, which is no number as a quotient."""
    return f"sum(rate({some}{_RATE}) or vector(0)) / sum(rate({all_of_them}{_RATE})) >= 0 or vector(0)"
