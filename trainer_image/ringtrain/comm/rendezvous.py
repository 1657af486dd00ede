"""How the members of a generation find each other: at its store, in steps that can be given up one by one."""

import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from ringtrain.comm.errors import Abandoned

_CONNECT_TIMEOUT = timedelta(seconds=5)
_ANSWER_TIMEOUT = timedelta(seconds=60)
_SHORTEST_PAUSE = 5e-3
_LONGEST_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rank's attempt to enter a generation."""

    generation: str
    rank: int
    size: int
    timeout: timedelta
    abandoned: threading.Event
    """Set from outside; ends the attempt."""

    def connect(self, host: str, port: int) -> Store:
        """The generation's part of the store at `host`. Raises RuntimeError after the time-out, or Abandoned."""
        deadline = self._deadline()
        while True:
            try:
                server = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=_CONNECT_TIMEOUT)
            except RuntimeError as error:
                self._check(deadline, f"no store at {host}:{port}: {error}")
                time.sleep(_LONGEST_PAUSE)
            else:
                server.set_timeout(min(self.timeout, _ANSWER_TIMEOUT))
                # Members that come late to an old generation must never meet those of a newer one.
                return PrefixStore(f"generation/{self.generation}", server)

    def meet(self, store: Store) -> None:
        """Returns once all members are here. Raises RuntimeError naming those missing after the time-out, or Abandoned.

        Gloo would wait for them too, but inside a call that can neither be polled nor left.
        """
        deadline = self._deadline()
        store.set(f"present/{self.rank}", "")
        here = store.add("present", 1)
        pause = _SHORTEST_PAUSE
        while here < self.size:
            if self._late(deadline):
                missing = [rank for rank in range(self.size) if not store.check([f"present/{rank}"])]
                self._check(deadline, f"these ranks are missing: {', '.join(map(str, missing))}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            here = store.add("present", 0)

    def _deadline(self) -> float:
        return time.monotonic() + self.timeout.total_seconds()

    def _late(self, deadline: float) -> bool:
        return self.abandoned.is_set() or time.monotonic() > deadline

    def _check(self, deadline: float, problem: str) -> None:
        if self.abandoned.is_set():
            raise Abandoned
        if self._late(deadline):
            raise RuntimeError(problem)
