"""How a run is shown: lines in a pipe, a live display in a terminal."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ringtrain_operator.api.status import JobPhase, TrainingJobStatus
from ringtrain_operator.local.snapshot import Snapshot, facts
from ringtrain_operator.plan.result import Event

_LINES_A_RUN = 40
"""Progress lines of a short run, about: one is printed when the round advanced by a 40th of all."""
_LINE_SECONDS = 10.0
"""Between the progress lines of a long run."""

_STYLES = {
    JobPhase.RUNNING: "bold green",
    JobPhase.SUCCEEDED: "bold green",
    JobPhase.FAILED: "bold red",
    JobPhase.INVALID: "bold red",
    JobPhase.RESTARTING: "bold yellow",
}


class View(Protocol):
    def note(self, text: str) -> None: ...

    def event(self, event: Event) -> None: ...

    def update(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


class LineView:
    """One line for each change of state, and one every few rounds. For pipes and log files."""

    def __init__(self, console: Console, clock: Callable[[], datetime] = datetime.now) -> None:
        self._console = console
        self._clock = clock
        self._shown: TrainingJobStatus | None = None
        self._shown_at = clock()

    def note(self, text: str) -> None:
        self._print(text)

    def event(self, event: Event) -> None:
        self._print(f"{event.type} {event.reason}: {event.message}")

    def update(self, snapshot: Snapshot) -> None:
        status = snapshot.status
        now = self._clock()
        if self._shown is not None and not _worth_a_line(self._shown, status, (now - self._shown_at).total_seconds()):
            return
        self._shown, self._shown_at = status, now
        running = status.phase is JobPhase.RUNNING
        self._print("  ".join([status.phase.value, *facts(snapshot), *([] if running else [status.message])]))

    def close(self) -> None:
        pass

    def _print(self, text: str) -> None:
        # No wrapping, markup or colors: lines are for grep.
        self._console.out(f"{self._clock():%H:%M:%S} {text.rstrip()}", highlight=False)
        self._console.file.flush()


def _worth_a_line(shown: TrainingJobStatus, status: TrainingJobStatus, seconds: float) -> bool:
    if (shown.phase, shown.restarts) != (status.phase, status.restarts):
        return True
    if status.phase is not JobPhase.RUNNING:
        return shown.message != status.message
    advance = abs(status.round - shown.round)
    return advance >= max(1, status.total_rounds // _LINES_A_RUN) or (advance > 0 and seconds >= _LINE_SECONDS)


class LiveView:
    """A display that is redrawn in place; notes and events scroll above it."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def event(self, event: Event) -> None:
        style = "yellow" if event.type == "Warning" else "dim"
        self._console.print(Text(f"{datetime.now():%H:%M:%S} {event.reason}: {event.message}", style=style))

    def update(self, snapshot: Snapshot) -> None:
        self._live.update(render(self._title, snapshot))

    def close(self) -> None:
        self._live.stop()


def render(title: str, snapshot: Snapshot) -> RenderableType:
    """The live display of one moment."""
    status = snapshot.status
    head = Text.assemble((title, "bold"), "  ", (status.phase.value, _STYLES.get(status.phase, "bold")))
    if status.message:
        head.append(f"  {status.message}", style="dim")
    table = Table.grid(padding=(0, 2))
    for replica in snapshot.replicas:
        table.add_row(f"  replica {replica.index}", Text(replica.state), Text(replica.pod, style="dim"))
    progress = Table.grid()
    progress.add_row(ProgressBar(total=max(status.total_rounds, 1), completed=status.round, width=50))
    progress.add_row(Text("  ".join(facts(snapshot))))
    return Group(head, progress, table)
