"""What commands print: tables, sentences, JSON. In a pipe, lines for grep: not wrapped, without colours."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_ENDLESS = 10_000
"""Columns of what is no terminal."""
_STYLES = {
    "Running": "green",
    "Succeeded": "green",
    "Failed": "bold red",
    "Invalid": "bold red",
    "Restarting": "yellow",
    "Warning": "yellow",
    "FAIL": "bold red",
    "WARN": "yellow",
    "ok": "green",
    "unknown": "dim",
}
"""Of cells that hold just this word."""


class Sheet:
    """A table: a header and rows of as many cells."""

    def __init__(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, has_header: bool = True) -> None:
        self.header = tuple(header)
        self.rows = tuple(map(tuple, rows))
        self._has_header = has_header

    def headless(self) -> "Sheet":
        """The rows alone."""
        return Sheet(self.header, self.rows, has_header=False)

    def render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=self._has_header)
        for name in self.header:
            table.add_column(Text(name), no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        return table


class Screen:
    """Standard output."""

    def __init__(self) -> None:
        console = Console(file=sys.stdout, highlight=False)
        self.is_terminal = console.is_terminal
        self._console = console if console.is_terminal else Console(file=sys.stdout, highlight=False, width=_ENDLESS)

    def show(self, *parts: RenderableType | Sheet) -> None:
        """Raises BrokenPipeError when nobody reads any more."""
        with self._console.capture() as captured:
            self._console.print(together(*parts))
        self.text(captured.get())

    def text(self, text: str) -> None:
        """Lines that end with a line end, as they are; trailing blanks of lines in a pipe are cut."""
        lines = text.splitlines() if self.is_terminal else [line.rstrip() for line in text.splitlines()]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def json(self, document: Any, *, one_line: bool = False) -> None:
        sys.stdout.write(json.dumps(document, indent=None if one_line else 2) + "\n")
        sys.stdout.flush()

    def live(self) -> Live:
        """A context manager; its `update` redraws."""
        return Live(console=self._console, auto_refresh=False, transient=False)


def together(*parts: RenderableType | Sheet) -> RenderableType:
    return Group(*(part.render() if isinstance(part, Sheet) else part for part in parts))


def age(since: datetime | None, now: datetime) -> str:
    """As kubectl shows it: 45s, 12m, 3h, 9d; nothing while unknown."""
    if since is None:
        return ""
    return seconds_text(now - since)


def seconds_text(span: timedelta) -> str:
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        # kubectl's rule: the smaller unit until two of the larger.
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def pairs(entries: Mapping[str, str]) -> str:
    """Lines `name  value`, aligned; empty values are left out."""
    known = {name: value for name, value in entries.items() if value}
    width = max(map(len, known), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in known.items())
