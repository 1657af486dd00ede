"""How much memory processes have together."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_INTERVAL = 0.05


class Watch:
    """Looks at these processes, and those that they started, again and again until the context is left."""

    def __init__(self, processes: Sequence[int]) -> None:
        self.peak_bytes = 0
        self._processes = processes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(_INTERVAL):
            found = sum(_bytes(process) for root in self._processes for process in _family(root))
            self.peak_bytes = max(self.peak_bytes, found)


def _family(process: int) -> Iterator[int]:
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from _family(int(child))


def _bytes(process: int) -> int:
    """Pages that several processes map, files in memory among them, are divided between these."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
