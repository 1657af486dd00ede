"""Ringtrain: `ringtrain run`, four replicas of one rank each, with their operator."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

from recovery_log import RingtrainLog
from recovery_manifests import training_job
from recovery_results import (
    KILL,
    KILL_COORDINATOR,
    KILL_FIRST,
    KILL_FIRST_POD,
    KILL_POD,
    STOP,
)
from recovery_system import System
from ringtrain.contract.addresses import AGENT_PORT, Addresses

_VICTIM = 2
_TAIL_SECONDS = 2e-3
_AGENT = "ringtrain.agent"


class Ringtrain(System):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._told = RingtrainLog(self.finished)
        self._ended = threading.Event()
        self._runner: subprocess.Popen[bytes] | None = None
        self._tail = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        file = self.directory / "job.json"
        file.write_text(json.dumps(training_job("none")))
        with self.log.open("wb") as log:
            self._runner = subprocess.Popen(
                [Path(sys.executable).with_name("ringtrain"), "run", f"--file={file}", f"--directory={self.directory}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment({}),
            )
        self._tail.start()

    def strike(self, fault: str) -> None:
        match fault:
            case _ if fault in (KILL, KILL_FIRST):
                os.kill(self._rank(0 if fault == KILL_FIRST else _VICTIM), signal.SIGKILL)
            case _ if fault == STOP:
                os.kill(self._rank(_VICTIM), signal.SIGSTOP)
            case _ if fault in (KILL_POD, KILL_FIRST_POD):
                # What the agent started ends with it.
                os.kill(self._agent(0 if fault == KILL_FIRST_POD else _VICTIM), signal.SIGKILL)
            case _ if fault == KILL_COORDINATOR:
                os.kill(self.running("ringtrain.coordinator"), signal.SIGKILL)

    def steps(self, fault_at: float, until: float) -> dict[str, float]:
        return self._told.steps(fault_at, until)

    def close(self) -> None:
        super().close()
        self._ended.set()
        if self._runner is not None:
            self._runner.wait()
            self._tail.join()

    def _agent(self, replica: int) -> int:
        return self.running(_AGENT, f"RINGTRAIN_REPLICA={replica}")

    def _rank(self, replica: int) -> int:
        variables = (Path("/proc") / str(self._agent(replica)) / "environ").read_bytes().split(b"\0")
        (table,) = [value for value in variables if value.startswith(b"RINGTRAIN_ADDRESSES=")]
        host = Addresses.parse(table.decode().partition("=")[2]).of(replica)
        with urllib.request.urlopen(f"http://{host}:{AGENT_PORT}/status", timeout=5) as answer:
            pid: int = json.load(answer)["ranks"][0]["pid"]
            return pid

    def _follow(self) -> None:
        """Every pod's log, as it grows."""
        read: dict[Path, int] = {}
        while not self._ended.is_set():
            for log in self.directory.glob("*/pods/*/log"):
                with log.open("rb") as file:
                    file.seek(read.get(log, 0))
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        read[log] = read.get(log, 0) + len(line)
                        self._told.take(time.time(), line.decode(errors="replace"))
            time.sleep(_TAIL_SECONDS)
