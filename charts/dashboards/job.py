"""One job: how it trains, communicates, fails and saves."""

from grafana_foundation_sdk.builders import dashboard

from dashboards.job_communication import communication
from dashboards.job_queries import WHERE, either, of_job, rate, total
from dashboards.panels import Query, begin, choice, marks, number, series, states


def job() -> dashboard.Dashboard:
    """Its rows are progress, communication, failures and recovery, checkpoints."""
    board = (
        begin("ringtrain-job", "Ringtrain / Job", "One TrainingJob: progress, communication, recovery, checkpoints")
        .with_variable(choice("namespace", "Namespace", "label_values(ringtrain_job_phase, namespace)"))
        .with_variable(
            choice(
                "training_job",
                "Job",
                'label_values(ringtrain_job_phase{namespace="$namespace"}, training_job)',
            )
        )
        .annotation(
            marks("Restarts", "red", f"max(increase(ringtrain_job_restarts_total{{{WHERE}}}[1m])) > 0", "restart")
        )
        .annotation(
            marks(
                "Generations",
                "orange",
                f"max by (training_job) (increase(ringtrain_generations_total{{{WHERE}}}[1m])) > 0",
                "new generation",
            )
        )
        .annotation(
            marks(
                "Checkpoints",
                "blue",
                f"max(changes(ringtrain_last_checkpoint_round{{{WHERE}}}[1m])) > 0",
                "checkpoint",
            )
        )
    )
    _progress(board)
    communication(board)
    _recovery(board)
    _checkpoints(board)
    return board


def _progress(board: dashboard.Dashboard) -> None:
    left = f"(max({of_job('ringtrain_total_rounds')}) - max({of_job('ringtrain_round')}))"
    speed = f"max({rate('ringtrain_rounds_total')})"
    board.with_row(dashboard.Row("Progress"))
    for panel in (
        number("Round", "Rounds finished.", "none", Query(f"max({of_job('ringtrain_round')})", "round")),
        number("Of", "Rounds to train.", "none", Query(f"max({of_job('ringtrain_total_rounds')})", "rounds")),
        number("Time left", "At the speed of the last minutes.", "s", Query(f"{left} / {speed}", "left")),
        number(
            "Loss", "Mean training loss of the last round.", "none", Query(f"max({of_job('ringtrain_loss')})", "loss")
        ),
        number(
            "Exposed communication",
            "Of the last round's time; the goal is less than 10 %.",
            "percentunit",
            Query(f"max({of_job('ringtrain_communication_share')})", "share"),
            line=0.1,
        ),
        number(
            "Restarts",
            "Replaced pods, and ranks started again in their pods, so far.",
            "none",
            Query(f"max({of_job('ringtrain_job_restarts_total')})", "restarts"),
        ),
    ):
        board.with_panel(panel)
    for curves in (
        series(
            "Loss",
            "Mean per token, in nats: of each round's training, and of evaluations where the job makes them.",
            "none",
            either(training="ringtrain_loss", evaluation="ringtrain_evaluation_loss"),
        ),
        series(
            "Tokens per second",
            "Of the whole job.",
            "short",
            Query(f"max({of_job('ringtrain_tokens_per_second')})", "tokens/s"),
        ),
        series(
            "Seconds of a round",
            "Mean over the rounds since the last scrapes, by rank.",
            "s",
            Query(
                f"{rate('ringtrain_round_seconds_total')} / {rate('ringtrain_rounds_total')}",
                "rank {{rank}}",
            ),
        ),
        series(
            "Gradient norm",
            "Of the mean gradient, before clipping.",
            "none",
            Query(f"max({of_job('ringtrain_gradient_norm')})", "norm"),
            width=12,
        ),
        series(
            "Model FLOP/s",
            "What the model's passes compute per second in the whole job, and what its devices could at best, where "
            "that is known: the quotient is the utilization (MFU).",
            "flops",
            either(model="ringtrain_model_flops_per_second", devices="ringtrain_peak_flops_per_second"),
            width=12,
        ),
    ):
        board.with_panel(curves)


def _recovery(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Failures and recovery"))
    board.with_panel(
        states(
            "Phase",
            "Of the job, as the operator tells it in its status.",
            Query(f"max by (phase) ({of_job('ringtrain_job_phase')})", "{{phase}}"),
            width=12,
        )
    )
    for panel in (
        series(
            "Ranks by phase",
            "A job in good health is in training, and now and then in checkpointing.",
            "none",
            Query(f"sum by (phase) ({of_job('ringtrain_rank_phase')})", "{{phase}}"),
            width=12,
            stacked=True,
        ),
        series(
            "Age of heartbeats",
            "Seconds since each rank's last one. A rank that passes its phase's time-out is started again.",
            "s",
            Query(of_job("ringtrain_heartbeat_age_seconds"), "rank {{rank}}"),
        ),
        series(
            "Restarts",
            "So far: all of the job, and those of ranks in their pods.",
            "none",
            Query(f"max({of_job('ringtrain_job_restarts_total')})", "job"),
            Query(f"sum({of_job('ringtrain_rank_restarts_total')})", "in their pods"),
        ),
        series(
            "Generations",
            "The number of the membership that trains. Every loss raises it: the epoch where pods are replaced.",
            "none",
            Query(f"max({of_job('ringtrain_generation_epoch')})", "epoch"),
            Query(f"max({of_job('ringtrain_generation_attempt')})", "attempt"),
            Query(f"max({of_job('ringtrain_absent_replicas')})", "absent replicas"),
        ),
    ):
        board.with_panel(panel)


def _checkpoints(board: dashboard.Dashboard) -> None:
    board.with_row(dashboard.Row("Checkpoints"))
    for panel in (
        series(
            "Rounds that a loss of all machines would cost",
            "Rounds finished since the newest checkpoint on the volume.",
            "none",
            Query(f"max({of_job('ringtrain_round')}) - max({of_job('ringtrain_last_checkpoint_round')})", "rounds"),
        ),
        series(
            "Age of the newest checkpoint",
            "Seconds since it was committed.",
            "s",
            Query(f"time() - max({of_job('ringtrain_last_checkpoint_timestamp_seconds')})", "age"),
        ),
        series(
            "Saves",
            "To the volume, by outcome, per minute.",
            "none",
            Query(f"60 * max by (outcome) ({rate('ringtrain_checkpoints_total')})", "{{outcome}}"),
        ),
        series(
            "What snapshots cost",
            "Share of the time in which training stood still for them.",
            "percentunit",
            Query(f"max({rate('ringtrain_snapshot_seconds_total')})", "standing still"),
        ),
        series(
            "Seconds of a save",
            "From the snapshot to the commit, while training went on: mean of those of the last 10 minutes.",
            "s",
            Query(
                f"sum(increase({of_job('ringtrain_checkpoint_write_seconds_total')}[10m])) / "
                f'sum(increase(ringtrain_checkpoints_total{{{WHERE},outcome="committed"}}[10m]))',
                "save",
            ),
        ),
        series(
            "Bytes written",
            "To the volume, by all ranks, per second.",
            "Bps",
            Query(total("ringtrain_checkpoint_written_bytes_total"), "written"),
        ),
    ):
        board.with_panel(panel)
