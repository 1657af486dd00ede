"""The process manager that an MPI library looks for when it connects, played for one rank by the generation's store.

It speaks PMI-1, the wire protocol of MPICH's Hydra: the library writes a line of words `key=value` into the socket that
PMI_FD names, and reads one line as the answer. MPICH, Intel MPI, MVAPICH and Cray MPICH all know it.
"""

import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from torch._C._distributed_c10d import Store

from ringtrain.runtime.errors import BadConfiguration

T = TypeVar("T")

Check = Callable[[], None]
"""Called often; what it raises ends the wait."""

_SHORTEST_PAUSE = 5e-3
_LONGEST_PAUSE = 0.1
_SPACE = "kvs"
_FIXED: Mapping[str, str] = MappingProxyType(
    {
        "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=4096 rc=0",
        "get_appnum": "cmd=appnum appnum=0 rc=0",
        "get_my_kvsname": f"cmd=my_kvsname kvsname={_SPACE} rc=0",
    }
)


def environment(descriptor: int, rank: int, size: int) -> dict[str, str]:
    """What makes an MPI library take the socket `descriptor` for its process manager."""
    return {"PMI_FD": str(descriptor), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}


class ProcessManager:
    """`connection` is to the library."""

    def __init__(self, connection: socket.socket, store: Store, size: int) -> None:
        self._connection = connection
        self._store = store
        self._size = size
        self._barriers = 0
        self._received = b""

    def serve(self, call: Callable[[], T], check: Check) -> T:
        """Runs `call` into the library on a thread of its own, and answers until it returns. Raises what it raises.

        Also raises what `check` raises, RuntimeError when the store fails, and BadConfiguration for what is not PMI-1:
        then the call is left where it is, for ever.
        """
        results: list[T] = []
        failures: list[Exception] = []

        def body() -> None:
            try:
                results.append(call())
            except Exception as error:  # Raised again below.
                failures.append(error)

        thread = threading.Thread(target=body, name="ringtrain-mpi", daemon=True)
        thread.start()
        while thread.is_alive():
            check()
            if select.select([self._connection], [], [], _SHORTEST_PAUSE)[0]:
                self._answer_all(check)
        if failures:
            raise failures[0]
        return results[0]

    def _answer_all(self, check: Check) -> None:
        self._received += self._connection.recv(1 << 16)
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            self._connection.sendall(self.answer(line.decode(), check).encode() + b"\n")

    def answer(self, line: str, check: Check) -> str:
        """To one command; both without the line's end. Raises as `serve` does."""
        head, _, value = line.partition(" value=")
        words = dict(word.partition("=")[::2] for word in head.split())
        match words.get("cmd", ""):
            case "put":
                self._store.set(f"key/{words['key']}", value)
                return "cmd=put_result rc=0 msg=success"
            case "get":
                return self._get(f"key/{words['key']}")
            case "barrier_in":
                self._barrier(check)
                return "cmd=barrier_out rc=0"
            case "get_universe_size":
                return f"cmd=universe_size size={self._size} rc=0"
            case command if command in _FIXED:
                return _FIXED[command]
        raise BadConfiguration(
            f"spec.communication.inter is mpi, and the image's MPI library says {line!r} to its process manager, which "
            "is not PMI-1: install MPICH or Intel MPI in the image, or set spec.communication.inter to gloo"
        )

    def _get(self, key: str) -> str:
        # Libraries ask for what only other process managers tell: the store would wait for it.
        if not self._store.check([key]):
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        return f"cmd=get_result rc=0 msg=success value={self._store.get(key).decode()}"

    def _barrier(self, check: Check) -> None:
        key = f"barrier/{self._barriers}"
        self._barriers += 1
        here = self._store.add(key, 1)
        pause = _SHORTEST_PAUSE
        while here < self._size:
            check()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            here = self._store.add(key, 0)
