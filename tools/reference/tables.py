"""Tables in Markdown."""

from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first cell of each row is shown as code."""
    return "\n".join(_lines(head, rows)) + "\n"


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for first, *others in rows:
        yield f"| {' | '.join([f'`{first}`', *(cell.replace('|', '&#124;') for cell in others)])} |"
