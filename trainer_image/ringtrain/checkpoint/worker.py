"""What is done beside training: one thing after another, on one thread."""

import queue
import threading
from collections.abc import Callable


class Worker:
    """Its thread ends with the process, whatever it waits for: a volume that hangs keeps nobody alive."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._unfinished = 0
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, task: Callable[[], None]) -> None:
        """`task` must not raise."""
        with self._changed:
            self._unfinished += 1
        self._tasks.put(task)

    @property
    def busy(self) -> bool:
        """Whether something that was submitted has not ended."""
        with self._changed:
            return self._unfinished > 0

    def wait(self, seconds: float) -> bool:
        """Whether all that was submitted has ended, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, seconds)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            task()
            del task
            with self._changed:
                self._unfinished -= 1
                self._changed.notify_all()
