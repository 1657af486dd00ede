"""Loggers beside the training thread, which never waits for one and never fails with one."""

import queue
import threading
from collections.abc import Callable, Mapping

from ringtrain.contract.report import Progress
from ringtrain.loggers.values import values_of

Logger = Callable[[Mapping[str, float], int], object]
"""Is told the numbers of a round, and the round; such as `lambda values, round: run.log(values, step=round)`."""
_QUEUE = 1000
"""Rounds that a logger may be behind."""
_CLOSE_SECONDS = 5.0


class Loggers:
    """Each logger has a thread. `report(reason, message)` tells the user of one that fails, or is too slow: once."""

    def __init__(self, report: Callable[[str, str], None], close_seconds: float = _CLOSE_SECONDS) -> None:
        self._report = report
        self._close_seconds = close_seconds
        self._workers: list[_Worker] = []

    def add(self, name: str, log: Logger, close: Callable[[], None] = lambda: None) -> None:
        """`log` and `close` are called in a thread of their own, one after the other."""
        self._workers.append(_Worker(name, log, close, self._report))

    def log(self, progress: Progress) -> None:
        """A round is finished."""
        if self._workers:
            values = values_of(progress)
            for worker in self._workers:
                worker.put(values, progress.round)

    def close(self) -> None:
        """Waits a few seconds for loggers that are behind; those that still are, are left alone."""
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.join(self._close_seconds)
        self._workers.clear()


class _Worker:
    def __init__(self, name: str, log: Logger, close: Callable[[], None], report: Callable[[str, str], None]) -> None:
        self._name = name
        self._log = log
        self._close = close
        self._report = report
        self._rounds: queue.Queue[tuple[Mapping[str, float], int] | None] = queue.Queue(_QUEUE)
        self._dropped = False
        """Told of, and of no further use."""
        self._thread = threading.Thread(target=self._work, name=f"ringtrain-logger-{name}", daemon=True)
        self._thread.start()

    def put(self, values: Mapping[str, float], round: int) -> None:
        if self._dropped:
            return
        try:
            self._rounds.put_nowait((values, round))
        except queue.Full:
            self._drop(f"is {_QUEUE} rounds behind")

    def end(self) -> None:
        try:
            self._rounds.put_nowait(None)
        except queue.Full:
            self._dropped = True

    def join(self, seconds: float) -> None:
        if not self._dropped:
            self._thread.join(seconds)

    def _work(self) -> None:
        try:
            while (item := self._rounds.get()) is not None:
                self._log(*item)
            self._close()
        except Exception as error:
            self._drop(f"failed: {type(error).__name__}: {error}")

    def _drop(self, what: str) -> None:
        self._dropped = True
        self._report("LoggerDropped", f"logger {self._name} {what}: it is told nothing more in this generation")
