"""How advice is shown: tables with lines in a terminal, aligned text in a pipe."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ringtrain_operator.advisor.advice import Advice, Choice, duration, percent


@dataclass(frozen=True, slots=True)
class Sheet:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: int | None = None
    """The row that stands out."""


def choices(advice: Advice, own: Choice | None) -> Sheet:
    """All choices on the job's machines."""
    rows = []
    for row in advice.rows:
        found = row.prediction
        notes = ["best"] * (row is advice.best) + ["the job's"] * (row.choice == own)
        rows.append(
            (
                row.choice.format.name,
                row.choice.algorithm,
                f"{found.sent_bytes / 1e6:,.1f}",
                duration(row.seconds),
                duration(found.exposed_seconds),
                percent(found.exposed_share),
                duration(found.link_seconds),
                duration(found.codec_seconds),
                duration(found.latency_seconds),
                found.limit,
                percent(found.error),
                ", ".join(notes),
            )
        )
    return Sheet(
        f"{advice.machines} machine{'s' * (advice.machines != 1)}",
        ("codec", "algorithm", "MB sent", "round", "exposed", "share", "link", "codec time", "latency", "limit",
         "noise", ""),
        tuple(rows),
        advice.rows.index(advice.best),
    )  # fmt: skip


def growth(advices: Sequence[tuple[int, Advice]]) -> Sheet:
    """The best choice for each number of GPUs."""
    rows = tuple(
        (
            str(gpus),
            str(advice.machines),
            str(advice.best.choice) if advice.machines > 1 else "-",
            duration(advice.best.seconds),
            percent(advice.best.prediction.exposed_share),
            advice.best.prediction.limit,
            percent(advice.best.prediction.error),
            str(advice.plain.choice) if advice.machines > 1 else "-",
            duration(advice.plain.seconds),
            percent(advice.plain.prediction.exposed_share),
        )
        for gpus, advice in advices
    )
    header = ("GPUs", "machines", "best", "round", "share", "limit", "noise", "not lossy", "round", "share")
    return Sheet("Extrapolated", header, rows)


def show(console: Console, sheet: Sheet) -> None:
    if not console.is_terminal:
        for line in _lines(sheet):
            console.out(line, highlight=False)
        return
    table = Table(title=sheet.title, title_justify="left")
    for name in sheet.header:
        table.add_column(Text(name), no_wrap=True)
    for index, row in enumerate(sheet.rows):
        table.add_row(*(Text(cell) for cell in row), style="bold green" if index == sheet.marked else None)
    console.print(table)


def _lines(sheet: Sheet) -> list[str]:
    table = (sheet.header, *sheet.rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(sheet.header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [f"{sheet.title}:", *lines]
