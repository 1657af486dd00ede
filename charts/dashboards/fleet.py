"""All jobs at a glance."""

from grafana_foundation_sdk.builders import dashboard

from dashboards.panels import Query, begin, choice, marks, number, overview, series

_WHERE = 'namespace=~"$namespace"'
_BY_JOB = "by (namespace, training_job)"
_LEGEND = "{{namespace}}/{{training_job}}"
_JOB_URL = "/d/ringtrain-job?var-namespace=${__data.fields.namespace}&var-training_job=${__data.fields.training_job}"


def fleet() -> dashboard.Dashboard:
    """Phases, progress, speed, communication, failures and checkpoints of the jobs in the chosen namespaces."""
    return (
        begin(
            "ringtrain-fleet", "Ringtrain / Fleet", "All TrainingJobs: which run, how far they are, what troubles them"
        )
        .with_variable(choice("namespace", "Namespace", "label_values(ringtrain_job_phase, namespace)", several=True))
        .annotation(
            marks(
                "Restarts",
                "red",
                f"sum {_BY_JOB} (increase(ringtrain_job_restarts_total{{{_WHERE}}}[1m])) > 0",
                _LEGEND,
            )
        )
        .with_panel(
            number(
                "Jobs",
                "TrainingJobs that exist.",
                "none",
                Query(f"count(max {_BY_JOB} (ringtrain_job_round{{{_WHERE}}}))", "jobs"),
            )
        )
        .with_panel(number("Running", "Jobs that train rounds now.", "none", _phases("Running")))
        .with_panel(
            number("Restarting", "Jobs that wait for a replica that is being replaced.", "none", _phases("Restarting"))
        )
        .with_panel(
            number("Failed", "Jobs that failed for good and are still there.", "none", _phases("Failed"), line=1)
        )
        .with_panel(
            number(
                "Tokens per second",
                "Of all jobs together.",
                "short",
                Query(f"sum(max {_BY_JOB} (ringtrain_tokens_per_second{{{_WHERE}}}))", "tokens/s"),
            )
        )
        .with_panel(
            number(
                "Restarts",
                "Replaced pods and ranks started again, in the time shown.",
                "none",
                Query(f"sum(max {_BY_JOB} (increase(ringtrain_job_restarts_total{{{_WHERE}}}[$__range])))", "restarts"),
            )
        )
        .with_panel(
            overview(
                "Jobs",
                "One line for each job, as the operator knows it; a click on its name opens it.",
                [
                    ("Round", "none", f"max {_BY_JOB} (ringtrain_job_round{{{_WHERE}}})"),
                    ("Of", "none", f"max {_BY_JOB} (ringtrain_job_total_rounds{{{_WHERE}}})"),
                    ("Ready", "none", f"max {_BY_JOB} (ringtrain_job_ready_replicas{{{_WHERE}}})"),
                    ("Replicas", "none", f"max {_BY_JOB} (ringtrain_job_replicas{{{_WHERE}}})"),
                    ("Restarts", "none", f"max {_BY_JOB} (ringtrain_job_restarts_total{{{_WHERE}}})"),
                    ("Loss", "none", f"max {_BY_JOB} (ringtrain_loss{{{_WHERE}}})"),
                    ("Communication", "percentunit", f"max {_BY_JOB} (ringtrain_communication_share{{{_WHERE}}})"),
                ],
                [("training_job", _JOB_URL)],
            )
        )
        .with_panel(
            series(
                "Progress",
                "Rounds finished, of those to train.",
                "percentunit",
                Query(
                    f"max {_BY_JOB} (ringtrain_job_round{{{_WHERE}}}) / "
                    f"(max {_BY_JOB} (ringtrain_job_total_rounds{{{_WHERE}}}) > 0)",
                    _LEGEND,
                ),
                width=12,
            )
        )
        .with_panel(
            series(
                "Tokens per second",
                "Of each job, over all its ranks.",
                "short",
                Query(f"max {_BY_JOB} (ringtrain_tokens_per_second{{{_WHERE}}})", _LEGEND),
                width=12,
            )
        )
        .with_panel(
            series(
                "Exposed communication",
                "Share of the time in which training waited for communication and did nothing else. The line is 10 %.",
                "percentunit",
                Query(
                    f"{_rate('ringtrain_communication_exposed_seconds_total')} / "
                    f"{_rate('ringtrain_round_seconds_total')}",
                    _LEGEND,
                ),
                line=0.1,
            )
        )
        .with_panel(
            series(
                "Age of the newest checkpoint",
                "What a loss of all machines at once would cost.",
                "s",
                Query(f"time() - max {_BY_JOB} (ringtrain_last_checkpoint_timestamp_seconds{{{_WHERE}}})", _LEGEND),
            )
        )
        .with_panel(
            series(
                "Restarts",
                "Replaced pods, and ranks started again in their pods, within five minutes.",
                "none",
                Query(f"max {_BY_JOB} (increase(ringtrain_job_restarts_total{{{_WHERE}}}[5m]))", _LEGEND),
            )
        )
    )


def _phases(phase: str) -> Query:
    here = f'max {_BY_JOB} (ringtrain_job_phase{{{_WHERE},phase="{phase}"}})'
    return Query(f"count({here}) or vector(0)", phase)


def _rate(metric: str) -> str:
    return f"sum {_BY_JOB} (rate({metric}{{{_WHERE}}}[$__rate_interval]))"
