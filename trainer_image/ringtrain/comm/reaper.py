"""Frees groups that were left while collectives still ran.

A Gloo group's destructor waits for its running collectives, so with a peer that hangs it would hang too. Here it is put
off until they have ended, which they do: a dead peer fails those of its neighbors, their groups are freed, which closes
their connections and fails the next ones, and so on. Only with a peer that hangs do they last, until it is killed.
"""

import atexit
import threading
import time

import torch.distributed as dist

_SECONDS_AT_EXIT = 1.0
_SHORTEST_PAUSE = 1e-3
_LONGEST_PAUSE = 50e-3

_waiting: set[threading.Thread] = set()


def drop(works: list[dist.Work], references: list[object]) -> None:
    """Empties both lists, which must hold the last references to their objects, as soon as all works have ended."""
    thread = threading.Thread(target=_drop, args=(works, references), name="ringtrain-reaper", daemon=True)
    _waiting.add(thread)
    thread.start()


def _drop(works: list[dist.Work], references: list[object]) -> None:
    pause = _SHORTEST_PAUSE
    while works:
        works[:] = [work for work in works if not work.is_completed()]
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    references.clear()
    _waiting.discard(threading.current_thread())


def waiting() -> int:
    """How many groups are still to be freed."""
    return len(_waiting)


@atexit.register
def _wait_at_exit() -> None:
    # A destructor that ends while the interpreter shuts down cannot take Python's lock any more and aborts the process,
    # which would hide its exit status. Those that can end do so at once; the others have not begun, and never will.
    deadline = time.monotonic() + _SECONDS_AT_EXIT
    for thread in list(_waiting):
        thread.join(max(0.0, deadline - time.monotonic()))
