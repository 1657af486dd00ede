"""What is done beside training: one thing after another, on one thread."""

import queue
import threading
from collections.abc import Callable


class Worker:
    """Its thread ends with the process, whatever it waits for: a volume that hangs keeps nobody alive."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, task: Callable[[], None]) -> None:
        """`task` must not raise."""
        with self._lock:
            self._unfinished += 1
        self._tasks.put(task)

    @property
    def busy(self) -> bool:
        """Whether something that was submitted has not ended."""
        with self._lock:
            return self._unfinished > 0

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            task()
            del task
            with self._lock:
                self._unfinished -= 1
