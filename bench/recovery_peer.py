"""A job of a peer: launchers whose workers tell by lines of JSON when they have started and finished rounds."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from recovery_results import KILL_FIRST, STOP
from recovery_rounds import Finished
from recovery_system import System

_VICTIM = 2


class Peer(System):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._log = self.log.open("wb")
        self._pids: dict[int, int] = {}
        self._launchers: list[subprocess.Popen[bytes]] = []

    def strike(self, fault: str) -> None:
        victim = self._pids[0 if fault == KILL_FIRST else _VICTIM]
        os.kill(victim, signal.SIGSTOP if fault == STOP else signal.SIGKILL)

    def after(self, fault: str) -> None:
        stopped = self._pids[_VICTIM]
        if fault == STOP and _is_stopped(stopped):
            os.kill(stopped, signal.SIGKILL)

    def close(self) -> None:
        super().close()
        for launcher in self._launchers:
            launcher.wait()
        self._log.close()

    def launch(self, command: Sequence[str], **variables: str) -> None:
        """Starts what starts workers, or serves them."""
        launcher = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=self.environment(variables),
        )
        self._launchers.append(launcher)
        assert launcher.stdout is not None
        threading.Thread(target=self._listen, args=(launcher.stdout,), daemon=True).start()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                if not line.startswith(b"{"):
                    continue
                told = json.loads(line)
                if "pid" in told:
                    self._pids[told["rank"]] = told["pid"]
                else:
                    self.finished.append(Finished(**told))


def tell_start(rank: int) -> None:
    """From a worker: its process runs."""
    _tell({"rank": rank, "pid": os.getpid()})


def tell_finished(round: int, size: int, members: object) -> None:
    """From a worker."""
    _tell({"at": time.time(), "round": round, "size": size, "members": str(members)})


def _tell(value: object) -> None:
    # In one write: others write to the same pipe.
    os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
