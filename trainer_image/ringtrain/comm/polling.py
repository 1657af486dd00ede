"""Waiting without being stuck: every wait of the training thread polls for a broken membership."""

import atexit
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Poll = Callable[[], None]
"""Called often, from the training thread; raises when the membership broke, which ends the wait."""

T = TypeVar("T")

_SHORTEST_PAUSE = 50e-6
_LONGEST_PAUSE = 1.5e-3
_GROWTH = 1.5
_SECONDS_AT_EXIT = 120.0

_abandoned: list[threading.Thread] = []


def poll_until(done: Callable[[], bool], poll: Poll) -> None:
    """Returns once `done()`. Polls at least once; raises whatever `poll` raises."""
    pause = _SHORTEST_PAUSE
    while True:
        poll()
        if done():
            return
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def wait_polled(event: threading.Event, poll: Poll) -> None:
    """Returns as soon as `event` is set. Polls at least once; raises whatever `poll` raises."""
    poll()
    while not event.wait(_LONGEST_PAUSE):
        poll()


def run_polled(function: Callable[[threading.Event], T], poll: Poll, name: str) -> T:
    """Runs `function`, which blocks in C++, on a thread of its own, and polls until it returns.

    Raises what `function` raises. When `poll` raises, the call is abandoned: the event that `function` was given is
    set, and its result is dropped. `function` must end within a minute of that, and must not touch shared state.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    abandoned = threading.Event()

    def body() -> None:
        try:
            results.append(function(abandoned))
        except BaseException as error:  # Raised again by the caller's thread.
            failures.append(error)
        if abandoned.is_set():
            results.clear()

    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    try:
        poll_until(lambda: not thread.is_alive(), poll)
    except BaseException:
        abandoned.set()
        results.clear()
        _abandoned[:] = [other for other in [*_abandoned, thread] if other.is_alive()]
        raise
    if failures:
        raise failures[0]
    return results[0]


@atexit.register
def _wait_at_exit() -> None:
    # C++ that returns to Python while the interpreter shuts down aborts the process, which would hide its exit status.
    deadline = time.monotonic() + _SECONDS_AT_EXIT
    for thread in _abandoned:
        thread.join(max(0.0, deadline - time.monotonic()))
