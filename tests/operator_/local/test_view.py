import itertools
from datetime import datetime, timedelta
from io import StringIO

from rich.console import Console

from ringtrain.contract.report import Progress
from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.local.snapshot import ReplicaState, Snapshot
from ringtrain_operator.local.view import LineView, render
from ringtrain_operator.plan.result import Event


def snapshot(phase: JobPhase, *, round_: int = 0, message: str = "", restarts: int = 0) -> Snapshot:
    status = TrainingJobStatus(
        phase=phase, round=round_, total_rounds=400, loss=str(5 - round_ / 100), message=message, restarts=restarts
    )
    return Snapshot(status, Progress(round=round_, total_rounds=400), (ReplicaState(0, "small-0-0", "training"),))


def lines(*snapshots: Snapshot, seconds: float = 0) -> list[str]:
    """What is printed when `seconds` pass between two readings of the clock."""
    output, start = StringIO(), datetime(2026, 1, 2, 3, 4, 5)
    ticks = itertools.count()
    view = LineView(Console(file=output, width=40), clock=lambda: start + timedelta(seconds=seconds * next(ticks)))
    for shown in snapshots:
        view.update(shown)
    view.event(Event("Warning", "Restarting", "[red]replica 1 failed[/red] " + "and more " * 20))
    return output.getvalue().splitlines()


def test_a_line_for_each_change_and_every_few_rounds() -> None:
    running = [snapshot(JobPhase.RUNNING, round_=number) for number in range(21)]
    found = lines(
        snapshot(JobPhase.PENDING, message="0 of 3 pods ready"),
        snapshot(JobPhase.PENDING, message="0 of 3 pods ready"),
        snapshot(JobPhase.PENDING, message="1 of 3 pods ready"),
        *running,
        snapshot(JobPhase.RESTARTING, round_=20, message="rank 1 was killed", restarts=1),
    )
    assert [line.split("  ")[:2] for line in found[:-1]] == [
        ["03:04:05 Pending", "round 0/400"],
        ["03:04:05 Pending", "round 0/400"],
        ["03:04:05 Running", "round 0/400"],
        ["03:04:05 Running", "round 10/400"],
        ["03:04:05 Running", "round 20/400"],
        ["03:04:05 Restarting", "round 20/400"],
    ]
    assert found[1].endswith("1 of 3 pods ready")
    assert "loss 4.9000" in found[3]


def test_a_long_run_has_a_line_now_and_then() -> None:
    running = [snapshot(JobPhase.RUNNING, round_=number // 2) for number in range(9)]
    assert sum("Running" in line for line in lines(*running)) == 1
    assert sum("Running" in line for line in lines(*running, seconds=10)) == 5


def test_lines_are_neither_wrapped_nor_interpreted() -> None:
    assert lines()[0].startswith("03:04:05 Warning Restarting: [red]replica 1 failed[/red] and more")


def test_the_live_display_shows_the_moment() -> None:
    console = Console(file=StringIO(), width=100, record=True)
    console.print(render("small", snapshot(JobPhase.RUNNING, round_=100, message="training", restarts=2)))
    text = console.export_text()
    assert any(line.startswith("round 100/400") for line in text.splitlines()), "the bar has a line of its own"
    for part in ("small  Running  training", "round 100/400  loss 4.0000  restarts 2", "replica 0", "small-0-0"):
        assert part in text
