"""A process that is killed at any one line of what it does."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(body: Callable[[], None], files: frozenset[str]) -> int:
    """How many lines of the modules at `files` are run by `body`, which a child process does to its end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        counter = _Counter(files, None)
        counter.run(body)
        os.write(theirs, str(counter.count).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the body failed"
    return int(text)


def killed_at(body: Callable[[], None], files: frozenset[str], line: int) -> None:
    """Does `body` in a child process, and kills it before the line of that number, from 0, of those modules."""
    child = os.fork()
    if child == 0:
        _Counter(files, line).run(body)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"line {line} was not reached"


class _Counter:
    def __init__(self, files: frozenset[str], fatal: int | None) -> None:
        self.count = 0
        self._files = files
        self._fatal = fatal

    def run(self, body: Callable[[], None]) -> None:
        try:
            sys.settrace(self._called)
            body()
        except BaseException as error:
            print(f"the body failed: {error!r}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            if self.count == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1
        return self._line
